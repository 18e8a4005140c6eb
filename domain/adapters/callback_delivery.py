"""Posts callbacks to partners' addresses: to the very address that was judged, without redirects, within a time.

It knows nothing of requests or of the database: bytes and headers in, what came of it out.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

import httpcore

from domain.rules.addresses import Address, AddressPolicy, RefusedAddress, Target, judged, parse

EXCERPT_CHARACTERS = 200
Resolver = Callable[[str, int], Awaitable[Sequence[Address]]]
SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


@dataclass(frozen=True)
class Answer:
    """The outcome of one post. Without a status, `error` names the failure."""

    status: int | None = None
    retry_after: str | None = None
    error: str | None = None
    excerpt: str | None = None
    duration_ms: int = 0


async def resolve(host: str, port: int) -> Sequence[Address]:
    """Every address of the name, as the system resolves it."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port)
    return [ip_address(address[4][0]) for address in found]


class JudgedBackend(httpcore.AsyncNetworkBackend):
    """Opens httpcore's connections to judged addresses. It resolves a name once; later DNS answers change nothing.

    TLS is httpcore's and goes by the URL's host, so that the certificate is checked for the name, not the address.
    """

    def __init__(self, policy: AddressPolicy, resolver: Resolver) -> None:
        self._policy = policy
        self._resolver = resolver
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = [judged(address, self._policy) for address in await self._resolver(host, port)]
        if not addresses:
            raise httpcore.ConnectError("the name has no address")
        return await self._network.connect_tcp(str(addresses[0]), port, timeout, local_address, socket_options)


@dataclass(frozen=True)
class CallbackPoster:
    """Posts. No connection is kept: a partner's server that is called rarely has closed it long since."""

    policy: AddressPolicy
    timeout_seconds: float
    tls: ssl.SSLContext
    resolver: Resolver = resolve

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Post the body; whatever happens is an answer, never an exception."""
        begun = time.monotonic()
        try:
            target = parse(url, self.policy)
            async with asyncio.timeout(self.timeout_seconds):
                answer = await self._exchange(target, headers, body)
        except RefusedAddress as error:
            answer = Answer(error=f"not called: {error}")
        except TimeoutError:
            answer = Answer(error=f"no answer within {self.timeout_seconds:g} s")
        except (OSError, httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            answer = Answer(error=f"{type(error).__name__}: {error}"[:EXCERPT_CHARACTERS])
        return Answer(
            answer.status,
            answer.retry_after,
            answer.error,
            answer.excerpt,
            duration_ms=round(1000 * (time.monotonic() - begun)),
        )

    async def _exchange(self, target: Target, headers: Mapping[str, str], body: bytes) -> Answer:
        backend = JudgedBackend(self.policy, self.resolver)
        url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        sent: list[tuple[bytes | str, bytes | str]] = [
            *headers.items(),
            ("host", target.authority),
            ("content-length", str(len(body))),
            ("connection", "close"),
            ("user-agent", "Cairn-Callbacks/1"),
        ]
        async with (
            httpcore.AsyncConnectionPool(ssl_context=self.tls, network_backend=backend) as pool,
            pool.stream("POST", url, headers=sent, content=body) as response,
        ):
            return Answer(response.status, _header(response, b"retry-after"), excerpt=await _excerpt(response))


def _header(response: httpcore.Response, name: bytes) -> str | None:
    return next((value.decode("latin-1")[:100] for key, value in response.headers if key.lower() == name), None)


async def _excerpt(response: httpcore.Response) -> str | None:
    """The beginning of the answer's body; the rest is not even read."""
    async for chunk in response.aiter_stream():
        return chunk[:EXCERPT_CHARACTERS].decode("utf-8", "replace").replace("\x00", "\ufffd")
    return None
