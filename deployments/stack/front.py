"""Opens services of a stack to other hosts: ends their TLS and passes bytes on to loopback. Knows no HTTP.

Each stranger's connection comes to the service from a loopback address of the stranger's own: services that count by
address still tell hosts apart, and none is taken for a proxy whose word about others counts.
"""

import argparse
import asyncio
import contextlib
import hashlib
import ipaddress
import logging
import signal
import ssl
from pathlib import Path

LOOPBACK = "127.0.0.1"
CHUNK = 64 * 1024
HANDSHAKE_SECONDS = 10.0
CONNECT_SECONDS = 5.0
LOOK_SECONDS = 10.0
MOST_CONNECTIONS = 2000

log = logging.getLogger("cairn.front")


def stand_in(stranger: str) -> str:
    """The loopback address that stands for a stranger's: the same for the same, and never one that services trust."""
    told = hashlib.sha256(ipaddress.ip_address(stranger).packed).digest()
    return f"127.{1 + told[0] % 254}.{told[1]}.{1 + told[2] % 254}"


class Front:
    """Listens at one address, on the ports of some services."""

    def __init__(self, address: str, ports: list[int], certificate: Path, key: Path) -> None:
        self.address, self.ports = address, ports
        self._certificate, self._key = certificate, key
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._tls.set_alpn_protocols(["http/1.1"])
        self._tls.load_cert_chain(certificate, key)
        self._loaded_at = self._written_at()
        self._connections = 0

    async def serve(self) -> None:
        """Serve until cancelled."""
        async with contextlib.AsyncExitStack() as open_doors:
            for port in self.ports:
                door = await asyncio.start_server(
                    self._handler(port),
                    self.address,
                    port,
                    ssl=self._tls,
                    ssl_handshake_timeout=HANDSHAKE_SECONDS,
                    limit=CHUNK,
                )
                await open_doors.enter_async_context(door)
            await self._keep_certificate()

    async def _keep_certificate(self) -> None:
        """Take a renewed certificate for connections that come after it. What cannot be loaded is not taken."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(OSError):
                if (written := self._written_at()) != self._loaded_at:
                    self._tls.load_cert_chain(self._certificate, self._key)  # ssl.SSLError is an OSError
                    self._loaded_at = written
                    log.warning("a renewed certificate is used from now on")

    def _written_at(self) -> tuple[int, int]:
        return self._certificate.stat().st_mtime_ns, self._key.stat().st_mtime_ns

    def _handler(self, port: int):  # type: ignore[no-untyped-def]
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._connections >= MOST_CONNECTIONS:
                writer.transport.abort()
                return
            self._connections += 1
            try:
                await self._pass_on(port, reader, writer)
            finally:
                self._connections -= 1

        return handle

    async def _pass_on(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stranger = str(writer.get_extra_info("peername")[0])
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                inside = await asyncio.open_connection(LOOPBACK, port, local_addr=(stand_in(stranger), 0), limit=CHUNK)
        except (OSError, TimeoutError):  # the service is away: whoever asks sees that its connection ends
            writer.transport.abort()
            return
        ways = [asyncio.create_task(_copy(reader, inside[1])), asyncio.create_task(_copy(inside[0], writer))]
        try:
            await asyncio.wait(ways)
        finally:
            for way in ways:
                way.cancel()
            for end in (writer, inside[1]):
                end.transport.abort()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Pass on what comes until it ends; then say so to the other side, which may still answer."""
    with contextlib.suppress(OSError):
        while content := await source.read(CHUNK):
            target.write(content)
            await target.drain()
    with contextlib.suppress(OSError, RuntimeError):
        if target.can_write_eof():
            target.write_eof()
        else:  # TLS cannot end one way only
            await target.drain()
            target.close()


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m deployments.stack.front")
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, action="append", required=True)
    parser.add_argument("--certificate", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    told = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(_until_told(Front(told.address, told.port, told.certificate, told.key)))


async def _until_told(front: Front) -> None:
    serving = asyncio.create_task(front.serve())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


if __name__ == "__main__":
    main()
