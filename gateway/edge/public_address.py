"""Gives requests our public address, whatever host a caller names and proxies are on the way. Pure ASGI; no routes.

Links in answers are made from the request's own address. Behind a proxy that is another one, and a caller may write any
host into it: what operators say takes its place.
"""

from typing import Final

from pydantic import HttpUrl
from starlette.types import ASGIApp, Receive, Scope, Send

# What libraries make links from as well.
TOLD: Final = {b"host", b"forwarded", b"x-forwarded-host", b"x-forwarded-port", b"x-forwarded-proto"}


class PublicAddress:
    """Rewrites requests to the public address. Pages below `spared` keep the host that their browser names."""

    def __init__(self, app: ASGIApp, url: HttpUrl, spared: str | None = None) -> None:
        self._app, self._spared = app, spared
        self._scheme, self._host = url.scheme, _host(url).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_spared(scope["path"]):
            rest = [(name, value) for name, value in scope["headers"] if name not in TOLD]
            scope = {**scope, "scheme": self._scheme, "headers": [(b"host", self._host), *rest]}
        await self._app(scope, receive, send)

    def _is_spared(self, path: str) -> bool:
        return self._spared is not None and (path == self._spared or path.startswith(f"{self._spared}/"))


def _host(url: HttpUrl) -> str:
    """Return host and port, without a port that the scheme implies."""
    usual = {"https": 443, "http": 80}[url.scheme]
    return f"{url.host}" if url.port in {None, usual} else f"{url.host}:{url.port}"
