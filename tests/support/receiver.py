"""A partner's callback receiver: a real HTTP server on loopback that keeps what it got and answers as it is told."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay_seconds: float = 0.0
    once: asyncio.Event | None = None  # which ends the delay


@dataclass
class Receiver:
    """What came, and how to answer: `reply` is asked at each request."""

    url: str
    reply: Callable[[Received], Reply] = lambda _request: Reply()
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _closing: asyncio.Event = field(default_factory=asyncio.Event)
    _open: set[asyncio.Task[None] | None] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(asyncio.current_task())
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            request = Received(head[0].split(" ")[1], headers, body)
            self.received.append(request)
            self._news.set()
            reply = self.reply(request)
            await self._delay(reply)
            lines = [f"HTTP/1.1 {reply.status} x", f"content-length: {len(reply.body)}", "connection: close"]
            lines += [f"{name}: {value}" for name, value in reply.headers.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + reply.body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the sender left
        finally:
            writer.close()
            self._open.discard(asyncio.current_task())

    async def _delay(self, reply: Reply) -> None:
        if reply.delay_seconds:
            ends = [asyncio.create_task(event.wait()) for event in (self._closing, reply.once) if event]
            await asyncio.wait(ends, timeout=reply.delay_seconds, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()

    async def close(self) -> None:
        """Answer at once whoever still waits."""
        self._closing.set()
        await asyncio.gather(*(task for task in self._open if task))

    async def wait_for(self, count: int, seconds: float = 60.0) -> None:
        """Until so many requests came."""
        async with asyncio.timeout(seconds):
            while len(self.received) < count:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def running_receiver(host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver("")
    server = await asyncio.start_server(receiver.serve, host, 0, ssl=tls)
    scheme = "https" if tls else "http"
    receiver.url = f"{scheme}://{host}:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield receiver
    finally:
        server.close()
        await receiver.close()
