"""Large answers lie in memory only as long as there is room for them, and what they are made of no longer than that."""

import asyncio
import time
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from domain.rules.rates import Buckets
from domain.rules.shares import Shares
from gateway.forwarding.reading_headers import READER
from gateway.serving.large_answers import PIECE_BYTES, Answers, Whole, making

LARGE = 20 * PIECE_BYTES
AT_ONCE = Buckets(1e12, 1e12)


def asked(reader: str) -> Scope:
    return {"type": "http", "headers": [(READER.encode(), reader.encode())]}


async def nothing() -> Message:
    raise AssertionError


class Reader:
    """Takes what is sent once it is let; until then, the server waits with the first piece that it cannot send."""

    def __init__(self) -> None:
        self.heard: list[Message] = []
        self.takes = asyncio.Event()

    async def take(self, message: Message) -> None:
        self.heard.append(message)
        await self.takes.wait()

    @property
    def status(self) -> int:
        return int(self.heard[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.heard)


def answering(size: int) -> Any:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * size})

    return app


async def test_memory_of_unread_answers_is_bounded_for_each_reader_and_for_all() -> None:
    shares = Shares(10 * LARGE, 5 * LARGE, reserve=3 * LARGE, little=LARGE)
    app = Answers(answering(LARGE), shares, AT_ONCE)
    readers = [Reader() for _ in range(20)]
    tasks = [
        asyncio.create_task(app(asked(f"{number % 2}"), nothing, each.take)) for number, each in enumerate(readers)
    ]
    for _ in range(3):
        await asyncio.sleep(0)
    assert shares.free == 3 * LARGE
    assert [each.status for each in readers].count(503) == 13
    other = Reader()
    other.takes.set()
    await app(asked("other"), nothing, other.take)
    assert (other.status, len(other.body)) == (200, LARGE)
    assert max(len(message.get("body", b"")) for message in other.heard) == PIECE_BYTES
    for each in readers:
        each.takes.set()
    await asyncio.gather(*tasks)
    assert shares.free == 10 * LARGE
    assert {len(each.body) for each in readers if each.status == 200} == {LARGE}


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, LARGE, LARGE + 1])
async def test_answer_arrives_unchanged(size: int) -> None:
    reader = Reader()
    reader.takes.set()
    await Answers(answering(size), Shares(2 * LARGE, 2 * LARGE), AT_ONCE)(asked(""), nothing, reader.take)
    assert (reader.status, reader.body) == (200, b"x" * size)
    assert [message.get("more_body", False) for message in reader.heard[1:]][-1] is False


async def test_an_answer_is_made_before_it_is_sent_and_kept_as_text_alone() -> None:
    given_back = asyncio.Event()

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        making(scope).callback(given_back.set)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (b"one ", b"two"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})

    reader = Reader()
    task = asyncio.create_task(Whole(app)(asked(""), nothing, reader.take))
    await asyncio.wait_for(given_back.wait(), 60)
    reader.takes.set()
    await task
    assert [message["type"] for message in reader.heard] == ["http.response.start", "http.response.body"]
    assert reader.body == b"one two"


async def test_large_answers_are_sent_at_a_pace_of_each_readers_own() -> None:
    pace = Buckets(10 * LARGE, LARGE)  # one at once, and each further one in a tenth of a second
    app = Answers(answering(LARGE), Shares(10 * LARGE, 10 * LARGE), pace)

    async def seconds_for(reader: str, answers: int) -> float:
        taking = Reader()
        taking.takes.set()
        began = time.monotonic()
        await asyncio.gather(*(app(asked(reader), nothing, taking.take) for _ in range(answers)))
        return time.monotonic() - began

    many, one = await asyncio.gather(seconds_for("many", 4), seconds_for("one", 1))
    assert many >= 0.3 > one
