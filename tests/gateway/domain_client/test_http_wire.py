"""The quick way to the domain says what httpx would say, also where nothing good comes back."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.domain_client.http_wire import QuickWire, Wire
from tests.support.receiver import Receiver, Reply, running_receiver


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with running_receiver() as running:
        yield running


def base(server: Receiver) -> str:
    return server.url.removesuffix("/hook")


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, {"content-type": "application/json"}, b'{"a": 1}'),
        Reply(202, {}, b"[]"),
        Reply(204),
        Reply(302, {"location": "/elsewhere"}, b"null"),
        Reply(422, {"set-cookie": "a=b"}, b'{"code": "x"}'),
        Reply(503, {}, b"0"),
    ],
)
async def test_quick_wire_sends_and_receives_what_httpx_does(server: Receiver, reply: Reply) -> None:
    server.reply = lambda _request: reply
    heard = []
    wires: list[Wire]
    async with QuickWire(base(server), 5) as quick, httpx.AsyncClient(base_url=base(server)) as slow:
        wires = [quick, slow]
        for wire in wires:
            headers = {"Authorization": b"Bearer abc", "If-Match": '"3"'}
            answer = await wire.request(
                "POST", "/a/b", json={"x": ["ü", 1.5, None]}, params={"r": "a b&c"}, headers=headers
            )
            content = answer.json() if answer.content else None
            heard.append((answer.status_code, answer.is_success, content))
            await wire.get("/readyz")
    assert heard[0] == heard[1]
    ours, _, theirs, _ = server.received
    assert json.loads(ours.body) == json.loads(theirs.body)
    assert httpx.URL(ours.path) == httpx.URL(theirs.path)
    for name in ("authorization", "if-match", "content-type"):
        assert ours.headers[name] == theirs.headers[name]
    assert len(server.received) == 4  # no redirect was followed, nothing asked twice
    assert "cookie" not in server.received[1].headers


async def test_quick_wire_without_an_answer_raises_what_httpx_raises(server: Receiver) -> None:
    server.reply = lambda _request: Reply(200, delay_seconds=5)
    async with QuickWire(base(server), 0.2) as slow:
        with pytest.raises(httpx.TimeoutException):
            await slow.get("/")
    async with QuickWire("http://127.0.0.1:9", 1) as nobody:
        with pytest.raises(httpx.HTTPError):
            await nobody.get("/")


@pytest.mark.parametrize("said", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort"])
async def test_malformed_answer_raises_as_a_missing_one_does(said: bytes) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, QuickWire(f"http://127.0.0.1:{port}", 1) as wire:
        with pytest.raises(httpx.HTTPError):
            await wire.request("POST", "/", json={})


async def test_unsendable_header_or_body_is_refused_before_sending(server: Receiver) -> None:
    async with QuickWire(base(server), 1) as wire:
        for headers, body in (({"If-Match": "a\r\nx: y"}, {}), ({}, {"x": float("nan")})):
            with pytest.raises((httpx.HTTPError, ValueError)):
                await wire.request("POST", "/", json=body, headers=headers)
    assert server.received == []


@pytest.mark.parametrize(("method", "times"), [("DELETE", 1), ("PUT", 1), ("POST", 1), ("GET", 2)])
async def test_changing_request_is_never_sent_twice(method: str, times: int) -> None:
    """The connection is one that was used before, and ends instead of an answer."""
    asked: list[str] = []

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (path := (await reader.readuntil(b"\r\n\r\n")).decode().split(" ")[1]) == "/first":
            asked.append(path)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1")
        asked.append(path)
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server, QuickWire(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", 2) as wire:
        assert (await wire.get("/first")).status_code == 200
        with pytest.raises(httpx.HTTPError):
            await wire.request(method, "/second")
    assert asked == ["/first"] + ["/second"] * times
