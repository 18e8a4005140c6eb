"""Workers look for runs often while there are some, seldom while the domain tells them, and all the time otherwise."""

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from deployments.workers import hearing, looks
from deployments.workers.looks import BUSY_SECONDS, IDLE_SECONDS, Looks
from flows.runs.domain_client import LONGEST_HOLD_SECONDS
from flows.settings import WorkerSettings
from tests.support.clock import Clock, eventually

ROUND_SECONDS = 0.2 * 1.3  # the longest of a worker's rounds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(looks, "time", made)
    return made


def test_worker_that_is_told_of_nothing_looks_in_every_round(clock: Clock) -> None:
    made = Looks()
    for _ in range(3):
        assert made.is_due()
        made.looked(found=False)


def test_idle_worker_that_is_told_of_runs_looks_once_in_less_than_a_second(clock: Clock) -> None:
    made = Looks(is_told=True)
    made.looked(found=False)
    assert not made.is_due()
    clock.forward(IDLE_SECONDS)
    assert made.is_due()
    assert IDLE_SECONDS + ROUND_SECONDS < 1


@pytest.mark.parametrize("cause", [lambda made: made.looked(found=True), Looks.hurry], ids=["found", "a free place"])
def test_worker_that_found_something_looks_in_every_round_for_a_while(
    clock: Clock, cause: Callable[[Looks], None]
) -> None:
    made = Looks(is_told=True)
    cause(made)
    made.looked(found=False)
    assert made.is_due()
    clock.forward(BUSY_SECONDS)
    made.looked(found=False)
    assert not made.is_due()


class Worker:
    """Counts its looks; the first of them fails."""

    def __init__(self) -> None:
        self.looks = Looks()
        self.count = 0

    async def look_now(self) -> list[Any]:
        self.count += 1
        if self.count == 1:
            raise RuntimeError("Prefect refuses.")
        return []


async def test_worker_looks_when_it_is_told_and_all_the_time_while_the_domain_does_not_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[Any] = [{"sent": False}, {"sent": True}, {"sent": True}, {"sent": False}]
    asked: list[str] = []
    away = asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        if away.is_set():
            return httpx.Response(404, content=b"no such route")
        if not answers:
            await asyncio.sleep(0.01)
        return httpx.Response(200, content=json.dumps(answers.pop(0) if answers else {"sent": False}))

    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(
        hearing, "domain_http", lambda _: httpx.AsyncClient(base_url="http://domain.test", transport=transport)
    )
    monkeypatch.setattr(hearing, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(hearing, "AGAIN_SECONDS", 0.0)
    made = Worker()
    settings = cast("WorkerSettings", SimpleNamespace())
    hears = asyncio.create_task(hearing.hear_of_runs(cast("Any", made), "light", settings))
    try:
        await eventually(lambda: made.looks.is_told and made.count == 2)
        away.set()
        await eventually(lambda: not made.looks.is_told)
        away.clear()
        await eventually(lambda: made.looks.is_told)
    finally:
        hears.cancel()
    assert made.count == 2
    assert asked[0] == "http://domain.test/api/v1/pools/light/sent?wait_seconds=0.0"
    assert asked[1].endswith(f"wait_seconds={LONGEST_HOLD_SECONDS}")
