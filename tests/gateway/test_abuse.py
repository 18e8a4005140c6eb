"""What strangers may do to a real gateway process without others noticing: endless, slow, ambiguous, guessing."""

import asyncio
import contextlib
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.cluster import TestCluster
from tests.support.doors import Door, answer_of, running_door, status_of

SUBMIT = b"POST /api/platform/submit HTTP/1.1\r\nhost: cairn.test\r\nx-api-key: secret-ddh-dev\r\n"
JSON = b"content-type: application/json\r\n"
GET = b"GET /livez HTTP/1.1\r\nhost: cairn.test\r\n"
GIGABYTE = 1_000_000_000
CUT_SECONDS = 30.0  # ten times what a stranger has for a body; not one waits for the end of the test's patience
CHUNK = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20))


LIMITS = {"CAIRN_HEAD_SECONDS": "2", "CAIRN_BODY_SECONDS": "3", "CAIRN_REFUSALS_PER_SECOND": "1e6"}


@pytest.fixture(scope="module")
async def door(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Door]:
    """One for all: what one stranger did must not be felt by the next. Guessing is remembered, so it comes last.

    Refusals are told at once here: ten thousand that wait would show less, and later.
    """
    with cluster.database() as database:
        storage = tmp_path_factory.mktemp("storage")
        async with running_door(database, storage, **LIMITS) as running:
            yield running


async def lives(door: Door) -> bool:
    """Whether somebody else gets the simplest answer."""
    async with httpx.AsyncClient(base_url=door.url, trust_env=False, timeout=CUT_SECONDS) as client:
        return (await client.get("/livez")).status_code == 200


async def test_a_gigabyte_in_chunks_is_refused_and_not_kept(door: Door) -> None:
    assert await lives(door)
    before, most, sent = door.resident_mb(), 0.0, 0
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    writer.write(SUBMIT + JSON + b"transfer-encoding: chunked\r\n\r\n")
    answering = asyncio.create_task(answer_of(reader))
    with contextlib.suppress(ConnectionError):
        while sent < GIGABYTE:
            writer.write(CHUNK)
            await writer.drain()
            sent += 1 << 20
            most = max(most, door.resident_mb())
    answer = await answering
    writer.close()
    assert status_of(answer) == 413
    assert b"body-too-large" in answer
    assert most - before < 20
    assert await lives(door)


async def test_announced_gigabyte_is_refused(door: Door) -> None:
    head = SUBMIT + JSON + b"content-length: %d\r\n\r\n" % GIGABYTE
    answer = await door.say(head, *[b"x" * (1 << 20)] * 3)
    assert status_of(answer) == 413


SEARCH = b"POST /stac/search HTTP/1.1\r\nhost: cairn.test\r\n"
STRANGER = SUBMIT.replace(b"x-api-key: secret-ddh-dev\r\n", b"")


@pytest.mark.parametrize(
    ("head", "refused"),
    [(STRANGER, {401}), (SEARCH, {429}), (SUBMIT, {429})],
    ids=["nobody's", "anybody's", "one partner's"],
)
async def test_unfinished_bodies_take_little_memory_and_others_send_theirs(
    door: Door, head: bytes, refused: set[int]
) -> None:
    """200 of nearly a megabyte, all at once; what there is room for is waited for until it is too late."""
    assert await submits(door, "before")
    before = door.resident_mb()
    unfinished = head + JSON + b"content-length: 950000\r\n\r\n"
    opened = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(200)]
    answering = [asyncio.create_task(answer_of(reader, 2 * CUT_SECONDS)) for reader, _ in opened]
    await asyncio.gather(*(send_all(writer, unfinished + b" " * 900_000) for _, writer in opened))
    assert await submits(door, "beside")
    assert door.resident_mb() - before < 60
    answers = Counter(map(status_of, await asyncio.gather(*answering)))
    for _, writer in opened:
        writer.close()
    assert set(answers) - {0, 408} == refused  # an answer may be lost under what is still being sent
    assert answers[408] < 20


async def send_all(writer: asyncio.StreamWriter, content: bytes) -> None:
    writer.write(content)
    with contextlib.suppress(ConnectionError):
        await writer.drain()


async def submits(door: Door, name: str) -> bool:
    """Whether another partner's body is read meanwhile."""
    body = {"item_id": name, "layer_index": "0", "version": "1", "data_type": "raster", "operation": "ingest"}
    async with httpx.AsyncClient(base_url=door.url, trust_env=False, timeout=CUT_SECONDS) as client:
        sent = await client.post("/api/platform/submit", json=body, headers={"X-API-Key": "secret-arcgis-dev"})
    return sent.status_code == 422 and "source" in sent.text


@pytest.mark.parametrize(
    ("slow", "status"),
    [
        (b"GET /livez HTTP/1.1\r\nhost: x\r\nx-", 408),
        (SUBMIT + JSON + b"content-length: 100\r\n\r\n{", 408),
        (SUBMIT + JSON + b"transfer-encoding: chunked\r\n\r\n5\r\n", 408),
        (b"", 0),
        (b"\r\n", 0),
    ],
    ids=["head", "body", "chunk", "silence", "empty lines"],
)
async def test_slow_senders_are_cut_off_and_others_served(door: Door, slow: bytes, status: int) -> None:
    """200 sockets that drip a byte a second. Somebody else has an answer before the first of them is cut off."""
    before = door.resident_mb()
    opened = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(200)]

    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(slow)
        with contextlib.suppress(ConnectionError):
            while slow.strip():
                await asyncio.sleep(1)
                writer.write(b"a")
                await writer.drain()

    began = time.monotonic()
    dripping = [asyncio.create_task(drip(writer)) for _, writer in opened]
    answering = [asyncio.create_task(answer_of(reader, 2 * CUT_SECONDS)) for reader, _ in opened]
    served = [(await lives(door), any(task.done() for task in answering)) for _ in range(10)]
    grown = door.resident_mb() - before
    answers = await asyncio.gather(*answering)
    took = time.monotonic() - began
    for task in dripping:
        task.cancel()
    for _, writer in opened:
        writer.close()
    assert served[0] == (True, False)
    assert all(answered for answered, _ in served)
    assert took < CUT_SECONDS
    assert grown < 20
    assert Counter(map(status_of, answers)) == {status: 200}


async def test_slightly_slow_sender_is_served(door: Door) -> None:
    """The control of the test above: the same bytes, complete within the time."""
    answer = await door.say(b"GET /livez HTTP/1.1\r\nhost: ", b"x\r\nconnection: close\r\n\r\n", pause_seconds=0.5)
    assert status_of(answer) == 200


CHUNKED = SUBMIT + JSON + b"transfer-encoding: chunked\r\n"
UNCLEAR = {
    "length and chunks": CHUNKED + b"content-length: 5\r\n\r\n0\r\n\r\n",
    "chunks and length": SUBMIT + JSON + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": SUBMIT + JSON + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    "two equal lengths": SUBMIT + JSON + b"content-length: 5\r\ncontent-length: 5\r\n\r\nhello",
    "two lengths in one": SUBMIT + JSON + b"content-length: 5, 5\r\n\r\nhello",
    "a length with a sign": SUBMIT + JSON + b"content-length: +5\r\n\r\nhello",
    "two hosts": GET + b"host: evil.test\r\n\r\n",
    "no host": b"GET /livez HTTP/1.1\r\n\r\n",
    "another coding": SUBMIT + JSON + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a hidden coding": SUBMIT + JSON + b"transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunks in 1.0": CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n0\r\n\r\n",
    "a chunk without its end": CHUNKED + b"\r\n3\r\nabcXX0\r\n\r\n",
    "a chunk of no size": CHUNKED + b"\r\nzz\r\nabc\r\n0\r\n\r\n",
    "a chunk of negative size": CHUNKED + b"\r\n-1\r\nabc\r\n0\r\n\r\n",
    "a space before the colon": GET + b"x-internal-role : admin\r\n\r\n",
    "a folded line": GET + b"x-a: b\r\n c: d\r\n\r\n",
    "a name with a break": GET + b"x-a\rb: c\r\n\r\n",
    "a value with NUL": GET + b"x-a: b\x00c\r\n\r\n",
    "another protocol": GET + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n",
    "a tunnel": b"CONNECT cairn.test:80 HTTP/1.1\r\nhost: cairn.test:80\r\n\r\n",
    "an address without a host": b"GET http:///a HTTP/1.1\r\nhost: x\r\n\r\n",
    "a line feed alone": b"GET /livez HTTP/1.1\nhost: x\n\n",
}


@pytest.mark.parametrize("sent", UNCLEAR.values(), ids=UNCLEAR.keys())
async def test_ambiguous_request_is_refused_and_ends_its_connection(door: Door, sent: bytes) -> None:
    """One 400 and the end, also of a second request that was hidden behind."""
    answer = await door.say(sent + b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
    assert status_of(answer) == 400
    assert len(re.findall(rb"HTTP/1\.1 \d{3}", answer)) == 1
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == 400


async def test_two_good_requests_on_one_connection_are_both_answered(door: Door) -> None:
    """The control: what is refused above is not refused for coming by hand."""
    answer = await door.say(GET + b"\r\n" + GET + b"connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200") == 2


async def test_domain_refuses_an_endless_head_and_takes_larger_ones_than_the_gateway(door: Door) -> None:
    """What the gateway lets through is larger when it comes from there."""
    for size, status in ((100_000, 200), (140_000, 431)):
        head = GET + b"connection: close\r\nx-a: " + b"y" * size + b"\r\n\r\n"
        assert status_of(await door.say(head, port=door.domain_port)) == status


async def test_a_head_without_end_is_cut_off(door: Door) -> None:
    before = door.resident_mb()
    answer = await door.say(GET, *[b"x-%d: %s\r\n" % (number, b"y" * 60_000) for number in range(300)])
    assert status_of(answer) in {0, 431}  # the answer may be lost under what is still being sent
    assert door.resident_mb() - before < 20
    assert status_of(await door.say(GET + b"x-a: " + b"y" * 40_000 + b"\r\n\r\n")) == 431
    long = b"GET /livez?%s HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-a: %s\r\n\r\n"
    assert status_of(await door.say(long % (b"y" * 20_000, b"y" * 20_000))) == 431  # at once, as one segment
    assert status_of(await door.say(long % (b"y" * 20_000, b"y"))) == 200
    assert status_of(await door.say(GET + b"connection: close\r\nx-a: " + b"y" * 20_000 + b"\r\n\r\n")) == 200


async def test_trailer_is_not_read_as_a_header(door: Door) -> None:
    """What stands behind a body was seen by no proxy that looks at heads: it names nobody."""
    nobody = SUBMIT.replace(b"x-api-key: secret-ddh-dev\r\n", b"") + JSON + b"transfer-encoding: chunked\r\n"
    trailer = b"\r\n2\r\n{}\r\n0\r\nx-api-key: secret-ddh-dev\r\n\r\n"
    assert status_of(await door.say(nobody + b"connection: close\r\n" + trailer)) == 401
    named = b"connection: close\r\nx-api-key: secret-ddh-dev\r\n"
    assert status_of(await door.say(nobody + named + trailer)) == 422  # the control: so it is taken to the end


async def test_a_trailer_without_end_is_cut_off(door: Door) -> None:
    before = door.resident_mb()
    answer = await door.say(CHUNKED + b"\r\n2\r\n{}\r\n0\r\n", *[b"x-a: %s\r\n" % (b"y" * 60_000)] * 300)
    assert status_of(answer) in {0, 431}
    assert door.resident_mb() - before < 20
    assert status_of(await door.say(CHUNKED + b"\r\n2\r\n{}\r\n0\r\nx-a: ", b"y" * 400_000, b"y" * 400_000)) in {0, 431}


async def test_internal_headers_from_outside_are_ignored(door: Door) -> None:
    """Who calls is said by the credential, whatever else is claimed."""
    claims = {
        "X-Internal-Role": "admin",
        "X-Platform-Id": "arcgis",
        "X-Client-Id": "operator",
        "Forwarded": "for=10.0.0.1;host=evil.test",
        "X-Forwarded-Host": "evil.test",
    }
    body = {"dataset_id": "a", "resource_id": "b", "version_id": "1", "data_type": "raster", "operation": "ingest"}
    async with httpx.AsyncClient(base_url=door.url, trust_env=False) as client:
        nobody = await client.get("/api/gateway/health", headers=claims)
        unknown = await client.post("/api/platform/submit", json=body, headers=claims)
        partner = {"X-API-Key": "secret-ddh-dev"} | claims
        accepted = await client.post("/api/platform/submit", json=body | {"source": "u/a.tif"}, headers=partner)
    assert (nobody.status_code, unknown.status_code, accepted.status_code) == (200, 401, 202)
    assert "evil.test" not in "".join(accepted.headers.values())
    assert door.rows("select platform_id from app.requests") == [("ddh",)]


async def test_ten_thousand_wrong_keys_do_not_slow_other_clients(door: Door) -> None:
    """Refused without a look-up after the first few; memory stays, and who has a good key goes on."""
    before = door.resident_mb()
    limits = httpx.Limits(max_connections=8)
    async with httpx.AsyncClient(base_url=door.url, trust_env=False, limits=limits, timeout=60) as client:
        good = {"X-API-Key": "secret-ddh-dev"}
        nothing = "/api/platform/status/00000000-0000-4000-8000-000000000000"
        assert (await client.get(nothing, headers=good)).status_code == 404

        async def guess(first: int) -> Counter[int]:
            keys = (f"cairn_{number:040d}" for number in range(first, 10_000, 8))
            return Counter([(await client.get(nothing, headers={"X-API-Key": key})).status_code for key in keys])

        answers = sum(await asyncio.gather(*(guess(first) for first in range(8))), Counter[int]())
        assert (await client.get(nothing, headers=good)).status_code == 404
    assert set(answers) == {401, 429}
    assert answers[429] > 9_500
    assert sum(answers.values()) == 10_000
    assert door.resident_mb() - before < 20
