"""The gateway as an Azure Function: the same application behind the Functions host. `host.json` lies beside it.

The host finds `app` by importing this module. Nothing is read or opened by that: the application is made at its first
call, when the environment is the one that it is to run in.
"""

import asyncio
from collections.abc import Iterable

from azure import functions
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.app import create_app


class Deferred:
    """The gateway, made when it is first needed, and started once however many calls come first.

    The Functions adapter starts an application at each call that finds it not started yet, all of them through one
    queue: the first start takes every message, the others only wait until the application ends.
    """

    def __init__(self) -> None:
        self._app: ASGIApp | None = None
        self._over = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._gateway()({**scope, "client": client_of(scope["headers"])}, receive, send)
        elif self._app is not None:
            await self._over.wait()
        else:
            self._over.clear()
            try:
                await self._gateway()(scope, _one_start(receive), send)
            finally:
                self._app = None  # where it could not start, the next call tries again
                self._over.set()

    def _gateway(self) -> ASGIApp:
        if self._app is None:
            self._app = create_app()
        return self._app


def _one_start(receive: Receive) -> Receive:
    """The messages without repeated starts: an application takes whatever comes after its start for its end."""
    starts = 0

    async def next_message() -> Message:
        nonlocal starts
        message = await receive()
        while message["type"] == "lifespan.startup" and starts:
            message = await receive()
        starts += 1
        return message

    return next_message


def client_of(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, int] | None:
    """Where a call comes from: the last address of X-Forwarded-For, which the host's own front end has written."""
    said = [value for name, value in headers if name.lower() == b"x-forwarded-for"]
    last = said[-1].decode("latin-1").rpartition(",")[2].strip() if said else ""
    if last.count(":") == 1 or last.startswith("["):  # with a port: 10.0.0.1:4711, [::1]:4711
        last = last.rpartition(":")[0] if not last.endswith("]") else last
    address = last.strip("[]")
    return (address, 0) if address else None


app = functions.AsgiFunctionApp(app=Deferred(), http_auth_level=functions.AuthLevel.ANONYMOUS)
