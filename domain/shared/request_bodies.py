"""Reads request bodies: identifies the sender first, and bounds how much of all bodies is kept.

Pure ASGI, shared by all services: each brings its own way to ask who sends, and its own limits. Knows no routes.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from domain.contracts.problems import ProblemError
from domain.contracts.rendering import render
from domain.rules.shares import InTheWay, Shares

WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})  # also where the head tells of none: some hosts leave that out
SECONDS: Final = 1  # after which somebody else's bodies may have been dealt with
Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]


class TooLarge(ProblemError):
    code, status, title = "body-too-large", 413, "The request body is too large"


class TooManyBodies(ProblemError):
    code, status, title = "too-many-bodies", 429, "Too much that you sent is still being read"


class Busy(ProblemError):
    code, status, title = "busy", 503, "There is no room for this right now"


@dataclass(frozen=True)
class Sender:
    """Who sends a body, as far as that is known before reading it, and whether their credential is good."""

    source: str
    is_known: bool


class BodyBudget:
    """Bounds what bodies take at once. Strangers share a quarter, so that they never keep out known clients."""

    def __init__(self, most_bytes: int, *, is_shared: bool = True) -> None:
        self._known = _shares(most_bytes - most_bytes // 4, is_shared=is_shared)
        self._strangers = _shares(most_bytes // 4, is_shared=True)

    def of(self, sender: Sender) -> Shares:
        return self._known if sender.is_known else self._strangers

    @property
    def used_bytes(self) -> int:
        return sum(shares.most - shares.free for shares in (self._known, self._strangers))


def _shares(most: int, *, is_shared: bool) -> Shares:
    """Return shares of a quarter for each source and a reserve for small ones; not shared, one source may hold all."""
    return Shares(most, most // 4, reserve=most // 4, little=most // 64) if is_shared else Shares(most, most)


@dataclass(frozen=True)
class BodyRules:
    """What bodies are accepted: their largest size, by path, and further checks."""

    most_bytes: int
    below: Mapping[str, int]
    judge: Callable[[Headers, bytes], None] | None = None

    def most_at(self, path: str) -> int:
        """Return the limit of the longest listed path that contains this one."""
        found = [prefix for prefix in self.below if path == prefix or path.startswith(f"{prefix}/")]
        return self.below[max(found, key=len)] if found else self.most_bytes


class Bodies:
    """Reads each body before the application sees its request, and frees its room after the answer.

    Whoever must not send one is refused before it is read. What heads say of sizes is believed only where it is too
    much: a chunked body names none.
    """

    def __init__(
        self, app: App, *, rules: BodyRules, room: BodyBudget, admit: Callable[[Scope], Awaitable[Sender]]
    ) -> None:
        self.app = app
        self.rules, self.room, self._admit = rules, room, admit

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not has_body(scope["method"], scope["headers"]):
            await self.app(scope, receive, send)
            return
        held = None
        try:
            try:
                sender = await self._admit(scope)
                held = _HeldRoom(self.room.of(sender), sender.source)
                body = await self._read(scope, receive, held)
            except ProblemError as refusal:
                await render(refusal.problem())(scope, receive, send)
                return
            if body is not None:
                await self.app(scope, _receive_again(body, receive), send)
        finally:
            if held is not None:
                held.give()

    async def _read(self, scope: Scope, receive: Any, held: "_HeldRoom") -> bytes | None:
        """Return the whole body, or None where its sender has gone."""
        most, parts = self.rules.most_at(scope["path"]), list[bytes]()
        refuse_more_than(most, announced_bytes(scope["headers"]))
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            refuse_more_than(most, held.size_bytes + len(part))
            held.take(len(part))
            parts.append(part)
            if not message.get("more_body", False):
                break
        body = b"".join(parts)
        if self.rules.judge is not None:
            self.rules.judge(scope["headers"], body)
        return body


@dataclass
class _HeldRoom:
    """The room that one body takes of its sender's share."""

    shares: Shares
    source: str
    size_bytes: int = 0

    def take(self, more: int) -> None:
        match self.shares.take(self.source, more):
            case InTheWay.OWN:
                detail = f"At most {self.shares.each:,} bytes of what you sent are read at a time."
                raise TooManyBodies(detail, retry_after_seconds=SECONDS)
            case InTheWay.OTHERS:
                raise Busy("Others send as much as there is room for. Send it again.", retry_after_seconds=SECONDS)
            case None:
                self.size_bytes += more

    def give(self) -> None:
        self.shares.give(self.source, self.size_bytes)
        self.size_bytes = 0


def _receive_again(body: bytes, receive: Any) -> Any:
    messages: Sequence[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]
    left = iter(messages)

    async def replay() -> Any:
        return next(left, None) or await receive()

    return replay


def has_body(method: str, headers: Headers) -> bool:
    """Whether a request with this head may have a body."""
    return method in WITH_BODY or any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0") for name, value in headers
    )


def announced_bytes(headers: Headers) -> int:
    """Return the size that the head announces; 0 where it announces none."""
    said = [value for name, value in headers if name == b"content-length"]
    return max((int(value) for value in said if value.strip().isdigit()), default=0)


def refuse_more_than(most: int, size: int) -> None:
    if size > most:
        raise TooLarge(f"A request body may have at most {most:,} bytes here.")
