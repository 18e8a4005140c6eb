"""Lines between workers and what they speak to, which can be cut: silently, as a network fails, or with resets.

They live in a loop of their own, in a thread: a stack that is being started speaks through them already.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, Literal

from deployments.stack.ports import HOST
from tests.support.clock import eventually

How = Literal["silent", "reset"]
PIECE_BYTES = 65_536
AT_ONCE = struct.pack("ii", 1, 0)  # a close without a farewell: the other side gets a reset


@dataclass
class Line:
    """One way, by a port of its own. `target` is asked at each connection: services choose their ports late."""

    name: str
    port: int
    target: Callable[[], int] = lambda: 0
    host: str = HOST
    passed: int = 0
    met: int = 0  # connections that a cut met, or that were tried during one
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _server: asyncio.Server | None = None

    async def start(self) -> None:
        self._open.set()
        self._server = await asyncio.start_server(self._carry, self.host, self.port)

    async def stop(self) -> None:
        """Nobody gets through any more."""
        if self._server:
            self._server.close()
        for writer in list(self._writers):
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            writer.transport.abort()

    async def cut(self, how: How) -> None:
        self.met += len(self._writers)
        self._open.clear()
        if how == "reset":
            await self.stop()

    async def in_use(self, seconds: float) -> None:
        """Wait until somebody speaks by it, so that a cut is met."""
        before = self.passed
        with suppress(AssertionError):  # the verdict tells of lines that nobody used
            await eventually(lambda: self.passed != before, seconds)

    async def mend(self) -> None:
        if self._server and not self._server.is_serving():
            await self.start()
        self._open.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, both ways. Whatever ends one of its sides ends it."""
        self._writers.add(writer)
        self.met += not self._open.is_set()
        try:
            await self._open.wait()
            far_reader, far_writer = await asyncio.open_connection(HOST, self.target())
        except OSError:
            self._forget(writer)
            return
        self._writers.add(far_writer)
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        finally:
            self._forget(writer)
            self._forget(far_writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(PIECE_BYTES):
                await self._open.wait()
                writer.write(piece)
                await writer.drain()
                self.passed += len(piece)
        with suppress(OSError, RuntimeError):
            writer.write_eof() if writer.can_write_eof() else writer.close()

    def _forget(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.close()


@dataclass(frozen=True)
class Lines:
    """Several lines and the loop that they live in."""

    lines: Sequence[Line]
    loop: asyncio.AbstractEventLoop

    @property
    def ports(self) -> dict[str, int]:
        return {line.name: line.port for line in self.lines}

    def cut(self, line: Line, how: How) -> None:
        self._do(line.cut(how))

    def mend(self, line: Line) -> None:
        self._do(line.mend())

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self.loop).result(10)


@contextmanager
def carrying(*lines: Line) -> Iterator[Lines]:
    """All of them open while the block runs."""
    made = Lines(lines, asyncio.new_event_loop())
    thread = Thread(target=made.loop.run_forever, name="lines", daemon=True)
    thread.start()
    try:
        for line in lines:
            made._do(line.start())
        yield made
    finally:
        for line in lines:
            made._do(line.stop())
        made._do(_end_connections())
        made.loop.call_soon_threadsafe(made.loop.stop)
        thread.join(10)
        made.loop.close()


async def _end_connections() -> None:
    connections = asyncio.all_tasks() - {asyncio.current_task()}
    for connection in connections:
        connection.cancel()
    await asyncio.gather(*connections, return_exceptions=True)
    await asyncio.sleep(0)  # transports that were aborted are told in the loop's next turn
