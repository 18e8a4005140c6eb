"""Bodies are read only of who may send them, and no more of them than there is room for."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from domain.shared.authentication import Unauthenticated
from domain.shared.request_bodies import Bodies, BodyBudget, BodyRules, Scope, Sender

RULES = BodyRules(1000, below={"/small": 10})
QUARTER = 4096  # of the room: what strangers share


@dataclass
class Line:
    """A connection on which parts of a body arrive, and on which an answer is heard."""

    parts: list[bytes]
    is_whole: bool = True
    read: int = 0
    heard: list[dict[str, Any]] = field(default_factory=list)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self) -> dict[str, Any]:
        if self.read == len(self.parts):
            await self.goes_on.wait()
            return {"type": "http.disconnect"}
        self.read += 1
        more = self.read < len(self.parts) or not self.is_whole
        return {"type": "http.request", "body": self.parts[self.read - 1], "more_body": more}

    async def send(self, message: dict[str, Any]) -> None:
        self.heard.append(message)

    @property
    def status(self) -> int:
        return int(self.heard[0]["status"])

    @property
    def said(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.heard[1:])


async def echo(_scope: Scope, receive: Any, send: Any) -> None:
    """An application that answers with the body that it was sent."""
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def admit(scope: Scope) -> Sender:
    """By a header: nobody, a stranger from somewhere, somebody who is known."""
    said = dict(scope["headers"])
    if b"from" in said:
        return Sender(said[b"from"].decode(), is_known=False)
    if b"key" in said:
        return Sender(said[b"key"].decode(), is_known=True)
    raise Unauthenticated("Send a key.")


def asked(path: str = "/", headers: Iterable[tuple[bytes, bytes]] = ()) -> Scope:
    return {"type": "http", "method": "POST", "path": path, "headers": list(headers)}


KEY, OTHER_KEY = (b"key", b"a"), (b"key", b"b")


def bodies(room: BodyBudget | None = None) -> Bodies:
    return Bodies(echo, rules=RULES, room=room or BodyBudget(4 * QUARTER), admit=admit)


async def test_body_arrives_as_sent_and_gives_its_room_back() -> None:
    room, line = BodyBudget(4 * QUARTER), Line([b"one ", b"", b"two"])
    await bodies(room)(asked(headers=[KEY]), line.receive, line.send)
    assert (line.status, line.said, room.used_bytes) == (200, b"one two", 0)


async def test_no_body_is_read_without_a_credential() -> None:
    line = Line([b"x"] * 5)
    await bodies()(asked(), line.receive, line.send)
    assert (line.status, line.read) == (401, 0)


@pytest.mark.parametrize(("path", "most"), [("/", 1000), ("/small", 10), ("/small/er", 10), ("/smaller", 1000)])
async def test_body_beyond_the_limit_of_its_path_is_refused(path: str, most: int) -> None:
    whole, beyond, endless = Line([b"x" * most]), Line([b"x" * most, b"x"]), Line([b"x" * 500] * 99)
    for line in (whole, beyond, endless):
        await bodies()(asked(path, [KEY]), line.receive, line.send)
    assert [line.status for line in (whole, beyond, endless)] == [200, 413, 413]
    assert endless.read <= 3


async def test_body_with_too_large_a_content_length_is_not_read() -> None:
    line = Line([b"x"] * 5)
    await bodies()(asked(headers=[KEY, (b"content-length", b"1001")]), line.receive, line.send)
    assert (line.status, line.read) == (413, 0)


async def test_unfinished_bodies_take_one_share_and_leave_room_for_others() -> None:
    """200 of one holder: those beyond its share are refused, and somebody else's passes beside the others."""
    room = BodyBudget(4 * QUARTER)
    app, lines = bodies(room), [Line([b"x" * 900], is_whole=False) for _ in range(200)]
    tasks = [asyncio.create_task(app(asked(headers=[KEY]), line.receive, line.send)) for line in lines]
    await asyncio.sleep(0)
    assert room.used_bytes <= 3 * QUARTER // 4
    assert {line.status for line in lines if line.heard} == {429}
    assert sum(not line.heard for line in lines) == 3 * QUARTER // 4 // 900
    other = Line([b"x" * 900])
    await app(asked(headers=[OTHER_KEY]), other.receive, other.send)
    assert other.status == 200
    for line in lines:
        line.goes_on.set()
    await asyncio.gather(*tasks)
    assert room.used_bytes == 0  # whoever goes away gives it back


async def test_many_strangers_do_not_keep_out_a_known_client() -> None:
    room = BodyBudget(4 * QUARTER)
    app, lines = bodies(room), [Line([b"x" * 900], is_whole=False) for _ in range(200)]
    tasks = [
        asyncio.create_task(app(asked(headers=[(b"from", b"%d" % number)]), line.receive, line.send))
        for number, line in enumerate(lines)
    ]
    await asyncio.sleep(0)
    assert room.used_bytes <= QUARTER
    assert {line.status for line in lines if line.heard} == {503}
    known = Line([b"x" * 900])
    await app(asked(headers=[KEY]), known.receive, known.send)
    assert known.status == 200
    stranger = Line([b"x" * 60])  # with little to say there is room in the reserve
    await app(asked(headers=[(b"from", b"elsewhere")]), stranger.receive, stranger.send)
    assert stranger.status == 200
    for line in lines:
        line.goes_on.set()
    await asyncio.gather(*tasks)
    assert room.used_bytes == 0


async def test_request_without_a_body_needs_no_credential_here() -> None:
    line = Line([b""])
    await bodies()({**asked(), "method": "GET"}, line.receive, line.send)
    assert line.status == 200
