"""The gateway as an Azure Function: the same application behind the Functions host. `host.json` lies beside it.

The host finds `app` by importing this module. Nothing is read or opened by that: the application is made at its first
call, when the environment is the one that it is to run in.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from azure import functions
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.contracts.rendering import render
from gateway.app import create_app
from gateway.errors import BehindUnavailable, NotOffered

# The host collects an answer before it sends it, and restarts the whole worker where one takes `functionTimeout`.
LONGEST_SECONDS: Final = 80.0
ENDLESS: Final = "/console/live/"
NO_STREAMS = NotOffered("Azure Functions sends no streams of events: open the console where the gateway is a server.")
TOO_LONG = BehindUnavailable(f"This took longer than the {LONGEST_SECONDS:.0f} s that a call may take here.")


class Deferred:
    """The gateway, made and started at the first call, once however many calls come first.

    The Functions adapter starts an application at each call that finds it not started yet, all of them through one
    queue: the first start takes every message, the others only wait until the application ends.
    """

    def __init__(self) -> None:
        self._app: ASGIApp | None = None
        self._over = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self._answer({**scope, "client": client_of(scope["headers"])}, receive, send)
        elif self._app is not None:
            await self._over.wait()
        else:
            self._over.clear()
            try:
                await self._gateway()(scope, _without_repeated_starts(receive), send)
            finally:
                self._app = None  # where it could not start, the next call tries again
                self._over.set()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Return the gateway's whole answer, or say in time that there is none."""
        if scope["path"].startswith(ENDLESS):
            await render(NO_STREAMS.problem())(scope, receive, send)
            return
        collected: list[Message] = []

        async def keep(message: Message) -> None:
            collected.append(message)

        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                await self._gateway()(scope, receive, keep)
        except TimeoutError:
            await render(TOO_LONG.problem())(scope, receive, send)
        else:
            for message in collected:
                await send(message)

    def _gateway(self) -> ASGIApp:
        if self._app is None:
            self._app = create_app()
        return self._app


def _without_repeated_starts(receive: Receive) -> Receive:
    """Return the messages without repeated starts, which an application takes for its end."""
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
    """Return the caller's address: the last of X-Forwarded-For, which the host's own front end wrote."""
    said = [value for name, value in headers if name.lower() == b"x-forwarded-for"]
    last = said[-1].decode("latin-1").rpartition(",")[2].strip() if said else ""
    if last.count(":") == 1 or last.startswith("["):  # with a port: 10.0.0.1:4711, [::1]:4711
        last = last.rpartition(":")[0] if not last.endswith("]") else last
    address = last.strip("[]")
    return (address, 0) if address else None


app = functions.AsgiFunctionApp(app=Deferred(), http_auth_level=functions.AuthLevel.ANONYMOUS)
