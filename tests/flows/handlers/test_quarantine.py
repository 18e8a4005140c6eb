"""Fetching sources: from the address that was judged, of an allowed host, within limits, into a generated name."""

import asyncio
import hashlib
import ssl
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Network, ip_address
from pathlib import Path
from typing import Any

import pytest

from domain.rules.addresses import Address, AddressPolicy
from domain.rules.sources import SourcePolicy
from flows.handlers import quarantine
from flows.handlers.context import Context
from flows.handlers.errors import HandlerError, InvalidInput, Stopped, Transient
from flows.handlers.quarantine import FetchLimits
from flows.handlers.raster.tile_declarations import BlobToMountParams, blob_to_mount
from tests.support import hostile
from tests.support.certificates import certificates
from tests.support.rasters import context_in
from tests.support.receiver import Received, Reply, running_receiver

HOST, OTHER = "data.example.org", "files.example.org"
RASTER = next(hostile.honest()).content
HERE = IPv4Network("127.0.0.1/32")


class Resolver:
    """A name server that gives one answer after another; the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers, self.asked = answers, 0

    def __call__(self, host: str, port: int) -> Sequence[Address]:
        self.asked += 1
        return [ip_address(address) for address in self.answers[min(self.asked, len(self.answers)) - 1]]


@pytest.fixture
def guard() -> FetchLimits:
    """Production's, but for plain http on loopback."""
    addresses = AddressPolicy(https_only=False, ports=None, networks=(HERE,))
    policy = SourcePolicy(frozenset({HOST, OTHER}), addresses)
    return FetchLimits(policy, 10_000_000, 20.0, ssl.create_default_context(), Resolver(["127.0.0.1"]))


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return context_in(tmp_path, output_prefix="assets/a/0-r1/a2")


def gives(status: int = 200, body: bytes = RASTER, headers: dict[str, str] | None = None) -> Any:
    return lambda _request: Reply(status, headers or {}, body)


async def fetched(context: Context, guard: FetchLimits, reply: Any, path: str = "/a/dem.tif?sig=canary") -> str:
    """Fetch from a real server that answers so."""
    async with running_receiver() as server:
        server.reply = reply
        url = server.url.replace("127.0.0.1", HOST).replace("/hook", path)
        return await asyncio.to_thread(quarantine.fetch, url, context, guard)


async def test_fetched_source_is_stored_under_a_generated_name(context: Context, guard: FetchLimits) -> None:
    name = await fetched(context, guard, gives())
    assert name.startswith("quarantine/assets/a/0-r1/a2/")
    assert name.endswith(".tif")
    assert "dem" not in name
    assert "canary" not in name
    assert context.storage.bronze.read_bytes(name) == RASTER
    assert list(context.workdir.iterdir()) == []


async def test_raster_workflow_fetches_its_address_in_its_first_step(
    context: Context, guard: FetchLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "_guard_of_settings", lambda: guard)
    async with running_receiver() as server:
        server.reply = gives()
        url = server.url.replace("127.0.0.1", HOST).replace("/hook", "/dem.tif?sig=canary")
        made = await asyncio.to_thread(blob_to_mount, BlobToMountParams(source=url), context)
    assert made.source.startswith("quarantine/")
    assert made.sha256 == hashlib.sha256(RASTER).hexdigest()
    assert "canary" not in made.model_dump_json()


async def test_request_to_the_host_carries_no_credential_or_internal_header(
    context: Context, guard: FetchLimits
) -> None:
    seen: list[Received] = []

    def reply(request: Received) -> Reply:
        seen.append(request)
        return Reply(200, body=RASTER)

    await fetched(context, guard, reply)
    assert set(seen[0].headers) == {"host", "accept-encoding", "user-agent"}
    assert seen[0].path == "/a/dem.tif?sig=canary"


REFUSED = [
    (gives(status=404), "status 404"),
    (gives(status=403), "status 403"),
    (gives(status=206), "status 206"),
    (gives(headers={"content-encoding": "gzip"}), "packed as 'gzip'"),
    (gives(body=b"  <html>Please sign in</html>"), "a page or XML"),
    (gives(body=b"<VRTDataset/>"), "a page or XML"),
    (gives(body=b"x" * 10_000_001), "larger than the 10,000,000 bytes"),
    (gives(status=302, headers={"location": "http://10.0.0.1/a.tif"}), "is not a public address"),
    (gives(status=302, headers={"location": "http://evil.org/a.tif"}), "not one of the hosts"),
    (gives(status=302, headers={"location": "file:///etc/passwd"}), "address is refused"),
    (gives(status=302, headers={"location": "/again"}), "redirects more than 3 times"),
    (gives(status=302), "redirects more than 3 times"),
]


@pytest.mark.parametrize(("reply", "words"), REFUSED)
async def test_refusal_of_a_fetch_hides_the_secret_of_its_address(
    reply: Any, words: str, context: Context, guard: FetchLimits
) -> None:
    with pytest.raises(InvalidInput, match=words) as refusal:
        await fetched(context, guard, reply)
    told: BaseException | None = refusal.value
    while told is not None:
        assert "canary" not in str(told)
        told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)
    assert context.storage.bronze.names("quarantine") == []
    assert list(context.workdir.iterdir()) == []


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_failing_host_is_retryable(status: int, context: Context, guard: FetchLimits) -> None:
    with pytest.raises(Transient, match=f"status {status}"):
        await fetched(context, guard, gives(status=status))


async def test_empty_or_broken_answer_of_a_host_is_retryable(context: Context, guard: FetchLimits) -> None:
    with pytest.raises(Transient, match="incomplete"):
        await fetched(context, guard, gives(body=b""))


async def test_a_redirect_to_an_allowed_host_is_followed(context: Context, guard: FetchLimits) -> None:
    async with running_receiver() as second:
        second.reply = gives()
        away = second.url.replace("127.0.0.1", OTHER)
        name = await fetched(context, guard, gives(status=307, headers={"location": away}))
    assert context.storage.bronze.read_bytes(name) == RASTER


async def test_host_name_that_resolves_to_an_internal_address_is_not_called(
    context: Context, guard: FetchLimits
) -> None:
    for answers in (["10.0.0.1"], ["127.0.0.1", "169.254.169.254"], ["::1"], ["168.63.129.16"]):
        with pytest.raises(InvalidInput, match="is not a public address"):
            await fetched(context, replace(guard, resolver=Resolver(answers)), gives())


async def test_host_name_is_resolved_once(context: Context, guard: FetchLimits) -> None:
    """A second answer, given between the check and the connection, would lead inside."""
    resolver = Resolver(["127.0.0.1"], ["10.0.0.1"])
    await fetched(context, replace(guard, resolver=resolver), gives())
    assert resolver.asked == 1


async def test_too_slow_host_is_given_up(context: Context, guard: FetchLimits) -> None:
    with pytest.raises(Transient, match="did not arrive within"):
        await fetched(context, replace(guard, seconds=0.0), gives())


async def test_fetch_stops_when_asked_to(context: Context, guard: FetchLimits) -> None:
    context.stop_event.set()
    with pytest.raises(Stopped):
        await fetched(context, guard, gives())


async def test_without_a_listed_host_nothing_is_fetched(context: Context) -> None:
    with pytest.raises(InvalidInput, match="addresses are not fetched"):
        await asyncio.to_thread(quarantine.fetch, "https://data.example.org/a.tif", context)


async def test_host_with_an_untrusted_certificate_is_refused(
    context: Context, guard: FetchLimits, tmp_path: Path
) -> None:
    server, trusting = certificates(tmp_path, HOST)
    async with running_receiver(tls=server) as receiver:
        receiver.reply = gives()
        url = receiver.url.replace("127.0.0.1", HOST)
        with pytest.raises(HandlerError, match="could not be fetched"):
            await asyncio.to_thread(quarantine.fetch, url, context, guard)
        assert receiver.received == []
        assert await asyncio.to_thread(quarantine.fetch, url, context, replace(guard, tls=trusting))
