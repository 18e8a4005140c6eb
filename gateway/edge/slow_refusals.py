"""Whoever is refused over and over waits for each further refusal: a crowd that asks again at once then hardly asks.

A refusal takes little, but somebody who asks again with each answer takes all the time there is. Pure ASGI, around
everything else; knows no routes and no credentials.
"""

import asyncio
from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.rules.guesses import place_of
from domain.rules.rates import Buckets

REFUSALS: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
BURST_SECONDS: Final = 4.0  # of refusals that are told at once before anybody waits
HELD_SECONDS: Final = 1.0
MOST_HELD: Final = 1_000  # beyond these, refusals are told at once again: what is held takes memory


class SlowRefusals:
    """Tells an address, or an IPv6 /64, so many refusals a second at once, and the others a second later."""

    def __init__(
        self, app: ASGIApp, per_second: float, held_seconds: float = HELD_SECONDS, most_held: int = MOST_HELD
    ) -> None:
        self.app = app
        self._told = Buckets(per_second, per_second * BURST_SECONDS)
        self._held_seconds, self._room = held_seconds, most_held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        held: list[Message] = []

        async def unless_held(message: Message) -> None:
            if held or (message["type"] == "http.response.start" and self._is_held(scope, message["status"])):
                held.append(message)
            else:
                await send(message)

        await self.app(scope, receive, unless_held)
        if held:  # by now the request has given back whatever it held of places and bytes
            await self._wait()
            for message in held:
                await send(message)

    def _is_held(self, scope: Scope, status: int) -> bool:
        """Count a refusal, and say whether it comes too soon after too many."""
        if status not in REFUSALS or self._room <= 0:
            return False
        place = place_of(scope["client"][0] if scope.get("client") else "")
        if self._told.wait_seconds(place):
            return True
        self._told.charge(place)
        return False

    async def _wait(self) -> None:
        self._room -= 1
        try:
            await asyncio.sleep(self._held_seconds)
        finally:
            self._room += 1
