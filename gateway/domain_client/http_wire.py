"""HTTP to the domain, as little of it as `DomainClient` asks: in httpx's words, at a seventh of its processor time.

Each submission costs the gateway one such call. Knows no routes and no problems.
"""

import json as text
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

import aiohttp
import httpx

# Below the 5 s after which uvicorn ends a connection that rests: a decision that meets its end is not sent again.
REST_SECONDS = 3.0
JSON = {"Content-Type": "application/json"}


class DomainAnswer(Protocol):
    """The parts of an answer that callers look at."""

    @property
    def status_code(self) -> int: ...

    @property
    def is_success(self) -> bool: ...

    @property
    def content(self) -> bytes: ...

    def json(self) -> Any: ...


class Wire(Protocol):
    """What calls the domain: this module's client, or one of httpx. Where nobody answers, it raises httpx.HTTPError."""

    async def request(
        self, method: str, path: str, /, *, json: Any = None, params: Any = None, headers: Any = None
    ) -> DomainAnswer: ...

    async def get(self, path: str, /) -> DomainAnswer: ...


@dataclass(frozen=True)
class ReadAnswer:
    status_code: int
    content: bytes

    @property
    def is_success(self) -> bool:
        return httpx.codes.is_success(self.status_code)

    def json(self) -> Any:
        return text.loads(self.content)


class QuickWire:
    """Connections to one address, opened when it is entered. Redirects are not followed, cookies not kept."""

    def __init__(self, base_url: str, timeout_seconds: float, connections: int = 100) -> None:
        self.base_url = base_url.rstrip("/")
        self.timeout_seconds = timeout_seconds
        self.connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.connections, keepalive_timeout=REST_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self.timeout_seconds),
            trust_env=False,
            middlewares=(asked_once,),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, /) -> ReadAnswer:
        return await self.request("GET", path)

    async def request(
        self,
        method: str,
        path: str,
        /,
        *,
        json: Any = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str | bytes] | None = None,
    ) -> ReadAnswer:
        """Make one call and read its whole answer."""
        if self._session is None:
            raise httpx.ConnectError("The connections are not open.")
        told = {name: _written(value) for name, value in (headers or {}).items()}
        content = None if json is None else text.dumps(json, separators=(",", ":"), allow_nan=False).encode()
        if content is not None:
            told |= JSON
        try:
            async with self._session.request(
                method, self.base_url + path, data=content, params=params, headers=told, allow_redirects=False
            ) as answer:
                return ReadAnswer(answer.status, await answer.read())
        except TimeoutError as error:
            raise httpx.ReadTimeout("The domain took too long.") from error
        except (aiohttp.ClientError, ValueError) as error:  # ValueError: what cannot be written into a head
            raise httpx.TransportError(f"The domain cannot be asked: {type(error).__name__}.") from error


async def asked_once(request: aiohttp.ClientRequest, ask: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating a call that the domain may have carried out before its connection ended."""
    try:
        return await ask(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method in {"GET", "HEAD"}:
            raise
        raise aiohttp.ClientConnectionError("The connection ended.") from error


def _written(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
