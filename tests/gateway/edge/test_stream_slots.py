"""Who reads slowly holds places of its own, and not for long: over a real gateway process and an endless answer."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.edge.stream_slots import Streams
from gateway.errors import Busy, TooManyStreams
from tests.support.clock import PATIENCE_SECONDS
from tests.support.cluster import TestDatabase
from tests.support.doors import Door, running_door, status_of

TILE = b"GET /tiles/endless HTTP/1.1\r\nhost: cairn.test\r\n\r\n"
SHORT = b"GET /tiles/short HTTP/1.1\r\nhost: cairn.test\r\nconnection: close\r\n\r\n"
CHUNK = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
PLACES = 5
WRITE_SECONDS = 2


@dataclass
class Endless:
    """A service that sends without end at /tiles/endless, and one byte elsewhere."""

    port: int = 0
    sending: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = await reader.readuntil(b"\r\n\r\n")
            if b"/tiles/endless" in asked:
                await self._send(writer)
            else:
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\n1")
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the reader left
        finally:
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        self._count(1)
        try:
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            while True:
                writer.write(CHUNK)
                await writer.drain()
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        self.sending += change
        self._news.set()

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.sending != count:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def running_endless() -> AsyncIterator[Endless]:
    endless = Endless()
    server = await asyncio.start_server(endless.serve, "127.0.0.1", 0)
    endless.port = server.sockets[0].getsockname()[1]
    try:
        yield endless
    finally:
        server.close()


async def reading_nothing(door: Door) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection("127.0.0.1", door.port, limit=1024)
    writer.write(TILE)
    return writer


async def test_slow_readers_hold_few_places_and_are_cut_off(database: TestDatabase, tmp_path: Path) -> None:
    settings = {"CAIRN_STREAMS_PER_ADDRESS": str(PLACES), "CAIRN_WRITE_SECONDS": str(WRITE_SECONDS)}
    async with running_endless() as endless:
        serving = f"http://127.0.0.1:{endless.port}"
        async with running_door(database, tmp_path, CAIRN_SERVING_URL=serving, **settings) as door:
            slow = [await reading_nothing(door) for _ in range(PLACES)]
            await endless.wait_for(PLACES)
            refused = await door.say(SHORT)
            assert status_of(refused) == 429
            assert b"retry-after: 1" in refused.lower()
            assert b"too-many-streams" in refused
            await endless.wait_for(0)
            answers = [await door.say(SHORT) for _ in range(2 * PLACES)]  # each gives its place back
            for writer in slow:
                writer.close()
    assert [status_of(answer) for answer in answers] == [200] * 2 * PLACES


async def test_dripping_reader_is_cut_off_and_steady_reader_is_not(database: TestDatabase, tmp_path: Path) -> None:
    """It is not the length of an answer that ends it: the control's lasts longer than a reader may be slow.

    That a reader's pace, and not one pause, ends it is shown by a clock of our own, in `test_arrival`.
    """
    settings = {"CAIRN_WRITE_SECONDS": str(WRITE_SECONDS), "CAIRN_WRITE_BYTES_PER_SECOND": "500000"}
    async with running_endless() as endless:
        serving = f"http://127.0.0.1:{endless.port}"
        async with running_door(database, tmp_path, CAIRN_SERVING_URL=serving, **settings) as door:
            dripping = asyncio.create_task(drip(door, 5_000))
            await endless.wait_for(1)
            reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
            writer.write(TILE)
            await endless.wait_for(2)
            until = time.monotonic() + 2 * WRITE_SECONDS
            while time.monotonic() < until or endless.sending == 2:
                assert await reader.readexactly(1_000_000)
                await asyncio.sleep(0.05)
                assert time.monotonic() < until + PATIENCE_SECONDS
            dripping.cancel()
            writer.close()
            await endless.wait_for(0)


async def drip(door: Door, size: int) -> None:
    """Take an answer in small parts, twenty a second, until it is cut off."""
    loop = asyncio.get_running_loop()
    with socket.socket() as drop:
        drop.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        drop.setblocking(False)
        await loop.sock_connect(drop, ("127.0.0.1", door.port))
        await loop.sock_sendall(drop, TILE)
        with contextlib.suppress(ConnectionError):
            while True:
                await loop.sock_recv(drop, size)
                await asyncio.sleep(0.05)


@asynccontextmanager
async def running_halfway(go_on: asyncio.Event) -> AsyncIterator[int]:
    """The port of a service that answers with a first half, and with the second once it is told to go on."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\nconnection: close\r\n\r\nfirst ")
            await writer.drain()
            await go_on.wait()
            writer.write(b"second")
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the reader left
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        go_on.set()
        server.close()


@pytest.mark.parametrize("path", ["/tiles/a", "/api/proxy/engine/runs/1"])
async def test_forwarded_answer_arrives_while_it_is_being_made(
    database: TestDatabase, tmp_path: Path, path: str
) -> None:
    """The service makes the second half only once its caller has read the first."""
    go_on = asyncio.Event()
    async with running_halfway(go_on) as port:
        url = f"http://127.0.0.1:{port}"
        targets = json.dumps({"engine": {"url": url, "paths": ["**"]}})
        async with running_door(database, tmp_path, CAIRN_SERVING_URL=url, CAIRN_PROXY_TARGETS=targets) as door:
            reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
            writer.write(f"GET {path} HTTP/1.1\r\nhost: cairn.test\r\nx-api-key: secret-operator\r\n\r\n".encode())
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
                assert await reader.readexactly(6) == b"first "
                assert not go_on.is_set()
                go_on.set()
                assert await reader.readexactly(6) == b"second"
            writer.close()


def test_stream_places_are_counted_by_source_and_given_back() -> None:
    streams = Streams(100, 2)
    with streams.place("a"), streams.place("a"), streams.place("b"), pytest.raises(TooManyStreams), streams.place("a"):
        pass
    with streams.place("a"), streams.place("a"):
        pass
    assert streams.shares.free == 100


SUBNET, NEIGHBOUR, ELSEWHERE = "2001:db8:1:2::%x", "2001:db8:1:2:ffff::%x", "2001:db8:9:9::%x"


def test_one_ipv6_network_counts_as_one_source() -> None:
    streams = Streams(100, 40)
    with contextlib.ExitStack() as held:
        for number in range(40):
            held.enter_context(streams.place((SUBNET if number % 2 else NEIGHBOUR) % number))
        for number in range(3):
            with pytest.raises(TooManyStreams), streams.place(SUBNET % (1000 + number)):
                pass
        for written, count in (("10.0.0.1", 20), ("::ffff:10.0.0.1", 15)):
            for _ in range(count):
                held.enter_context(streams.place(written))
        for number in range(6):  # what is left is for those who hold few
            held.enter_context(streams.place(ELSEWHERE % number))
        with pytest.raises(Busy), streams.place(ELSEWHERE % 6):
            pass
    assert streams.shares.free == 100
