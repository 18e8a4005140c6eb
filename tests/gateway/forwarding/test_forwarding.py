"""What passes the three doors that forward: every byte of a header, and no connection is kept for who is gone."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Message

from gateway.forwarding.proxy_rules import ProxyTarget
from tests.support.cluster import TestDatabase
from tests.support.platform import Platform, running_platform
from tests.support.receiver import Receiver, Reply, running_receiver

DOORS = ["/stac/search", "/console/pages", "/api/proxy/engine/runs"]
FILE = 'attachment; filename="größe.tif"'


async def nothing() -> Message:
    """A request without a body."""
    return {"type": "http.request"}


def scope_of(path: str) -> dict[str, Any]:
    """A request as a server tells of it."""
    return {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": "GET",
        "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"host", b"gateway"), (b"x-api-key", b"secret-operator")],
        "client": ("127.0.0.1", 1), "server": ("gateway", 80),
    }  # fmt: skip


@pytest.fixture
async def inside() -> AsyncIterator[Receiver]:
    """What is behind all three."""
    async with running_receiver() as running:
        running.reply = lambda _request: Reply(200, {"content-disposition": FILE}, b"from inside")
        yield running


@pytest.fixture
async def platform(database: TestDatabase, tmp_path: Path, inside: Receiver) -> AsyncIterator[Platform]:
    """Each door has one connection, and waits no longer than ten seconds for it."""
    url, limits = inside.url.removesuffix("/hook"), httpx.Limits(max_connections=1)
    target = ProxyTarget.model_validate({"url": url, "paths": ["**"], "timeout_seconds": 10})
    async with contextlib.AsyncExitStack() as stack:
        running = await stack.enter_async_context(running_platform(database, tmp_path))
        clients = [
            await stack.enter_async_context(httpx.AsyncClient(base_url=url, limits=limits, timeout=10, trust_env=False))
            for _ in DOORS
        ]
        state = running.gateway.app.state  # type: ignore[attr-defined]
        before = state.gateway
        state.gateway = replace(before, **dict(zip(("serving", "console", "targets"), clients, strict=True)))
        before.settings.proxy_targets["engine"] = target
        yield running
        state.gateway = before


@pytest.mark.parametrize("path", DOORS)
async def test_headers_pass_byte_by_byte_both_ways(platform: Platform, inside: Receiver, path: str) -> None:
    """As RFC 9110 lets them be, not only as ASCII."""
    async with platform.as_("operator") as caller:
        answer = await caller.get(path, headers=[(b"if-none-match", '"größe"'.encode()), (b"x-other", b"\xff")])
    assert (answer.status_code, answer.content) == (200, b"from inside")
    assert (b"content-disposition", FILE.encode()) in answer.headers.raw
    [seen] = inside.received
    assert seen.headers["if-none-match"].encode("latin-1") == '"größe"'.encode()
    assert seen.headers.get("x-other", "\xff") == "\xff"


@pytest.mark.parametrize("name", [b"x-api-key", b"authorization", b"cookie", b"host", b"referer"])
@pytest.mark.parametrize("path", DOORS)
async def test_undecodable_header_is_not_answered_500(platform: Platform, path: str, name: bytes) -> None:
    value = {b"authorization": b"Bearer \xfc", b"cookie": b'cairn_session="\\374\xfc"'}.get(name, b"\xfc\xc3\xbc")
    async with platform.as_(None) as nobody:
        answer = await nobody.get(path, headers=[(name, value), (b"sec-fetch-site", b"same-origin")])
    assert answer.status_code == (401 if "proxy" in path else 200), answer.text


@pytest.mark.parametrize("path", DOORS)
async def test_caller_gone_before_the_answer_holds_no_upstream_connection(platform: Platform, path: str) -> None:
    async def gone(message: Message) -> None:
        raise OSError("nobody is there any more")

    for _ in range(2):
        with contextlib.suppress(Exception):
            await platform.gateway.app(scope_of(path), nothing, gone)  # type: ignore[attr-defined]
    async with platform.as_("operator") as caller:
        assert (await caller.get(path)).status_code == 200


@pytest.mark.parametrize("path", DOORS)
async def test_undecodable_query_is_forwarded_unchanged(platform: Platform, inside: Receiver, path: str) -> None:
    heard: list[Message] = []

    async def hear(message: Message) -> None:
        heard.append(message)

    await platform.gateway.app(scope_of(path) | {"query_string": b"a=\xfc&b=%41"}, nothing, hear)  # type: ignore[attr-defined]
    assert heard[0]["status"] == 200
    [seen] = inside.received
    assert seen.path.endswith("?a=%FC&b=%41")


async def test_address_too_long_once_escaped_is_answered_404(platform: Platform) -> None:
    heard: list[Message] = []

    async def hear(message: Message) -> None:
        heard.append(message)

    scope = scope_of("/stac/search") | {"query_string": b"\xfc" * 30_000}
    await platform.gateway.app(scope, nothing, hear)  # type: ignore[attr-defined]
    assert heard[0]["status"] == 404
