"""Anybody may ask how the gateway is; the database and the domain are asked once a second for all of them."""

import asyncio
from dataclasses import replace

import pytest

from gateway.answer_cache import Remembered
from gateway.domain_client.client import DomainClient
from gateway.reads.queries import Queries
from tests.gateway.world import call
from tests.support.platform import Platform


class Counted:
    """A question that takes a moment."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self) -> bool:
        self.asked += 1
        await asyncio.sleep(0.01)
        return self.answers.pop(0)


async def test_concurrent_questions_are_asked_once_and_remembered_briefly() -> None:
    now = [0.0]
    kept, ask = Remembered(1.0, lambda: now[0]), Counted(True, False)
    assert await asyncio.gather(*(kept.answer("a", ask) for _ in range(100))) == [True] * 100
    now[0] = 0.9
    assert (await kept.answer("a", ask), ask.asked) == (True, 1)
    now[0] = 1.0
    assert (await kept.answer("a", ask), ask.asked) == (False, 2)
    assert await kept.answer("b", Counted(True))  # another question has its own answer


async def test_cancelled_caller_leaves_the_answer_to_the_others() -> None:
    kept, ask = Remembered(), Counted(True)
    leaving = asyncio.create_task(kept.answer("a", ask))
    await asyncio.sleep(0)
    staying = asyncio.create_task(kept.answer("a", ask))
    leaving.cancel()
    assert (await staying, ask.asked) == (True, 1)
    with pytest.raises(asyncio.CancelledError):
        await leaving


async def test_a_question_that_failed_is_asked_again_after_its_time() -> None:
    now = [0.0]
    kept = Remembered(1.0, lambda: now[0])
    with pytest.raises(IndexError):
        await kept.answer("a", Counted())
    now[0] = 1.0
    assert await kept.answer("a", Counted(True))


async def test_any_number_of_health_calls_asks_each_service_once(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, asked = platform.gateway.app, []  # type: ignore[attr-defined]
    app.state.gateway = replace(app.state.gateway, remembered=Remembered(clock=lambda: 0.0))
    for kind in (Queries, DomainClient):
        answers = kind.answers

        async def counted(self: object, answers: object = answers, kind: type = kind) -> bool:
            asked.append(kind)
            return await answers(self)  # type: ignore[operator, no-any-return]

        monkeypatch.setattr(kind, "answers", counted)
    for path in ("/api/readyz", "/readyz", "/api/gateway/health"):
        for answer in await asyncio.gather(*(call(platform, None, "GET", path) for _ in range(20))):
            assert answer.status_code == 200
    assert asked == [Queries, DomainClient]
