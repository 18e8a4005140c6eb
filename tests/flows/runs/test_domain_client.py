"""What a run tells the domain, and what becomes of it where the domain is silent or takes it not."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock
from uuid import UUID

import httpx
import pytest

from domain.contracts.runs import NodeEvent, RunProblem
from domain.rules.texts import unstorable_places
from flows.compiler import RunError
from flows.handlers.errors import InvalidInput
from flows.runs import domain_client
from flows.runs.domain_client import AttemptClient, DomainUnreachable, HeldBack, MessageRefused
from flows.runs.events import run_problem
from flows.runs.node_executor import NodeExecutor, Work
from flows.runs.run_context import RunContext
from flows.runs.stopping import Stop
from flows.runs.try_errors import run_error
from flows.tries import time_budget
from tests.flows.compiler.support import plan_of
from tests.support.clock import eventually

ENDED = {"run_id": str(UUID(int=1)), "state": "completed"}


@dataclass
class Answers:
    """A stand-in for the domain: answers heartbeats with a status, and everything else well. Or it is away."""

    status: int = 200
    heard: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    is_away: Callable[[], bool] = lambda: False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        verb = request.url.path.rpartition("/")[2]
        if self.is_away():
            return httpx.Response(503, json={"code": "database-unavailable", "detail": "Ask again."})
        self.heard.append((verb, json.loads(request.content)))
        return httpx.Response(
            self.status if verb == "heartbeat" else 200, json={**ENDED, "stop": False, "detail": "why"}
        )

    def line(self) -> AttemptClient:
        http = httpx.AsyncClient(base_url="http://domain.test", transport=httpx.MockTransport(self))
        return AttemptClient(http, UUID(int=1), "token")


@dataclass
class Clock:
    """Time that passes by waiting, and by nothing else."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(domain_client, "time", made)
    monkeypatch.setattr(domain_client, "asyncio", SimpleNamespace(**vars(asyncio) | {"sleep": made.sleep}))
    return made


EVENT = NodeEvent(node_id="n", state="running")


async def test_heartbeat_that_the_domain_refuses_as_fenced_stops_the_run() -> None:
    """Else it would work on in vain, and nobody would speak for it any more."""
    line = Answers(status=409).line()
    async with line.beating(10):
        await eventually(line.stop.is_set)
    assert line.stop.reason == "fenced"


async def test_event_that_the_domain_refuses_as_fenced_stops_the_run() -> None:
    domain = Answers(status=409)
    line = domain.line()
    line.note(EVENT)
    line._beat = AsyncMock()  # type: ignore[method-assign]
    async with line.beating(10):
        await eventually(line.stop.is_set)
    assert line.stop.reason == "fenced"
    assert domain.heard[0][1]["events"]


@pytest.mark.parametrize("nonsense", [b"<html>Sign in first</html>", b"[]", b'{"stop": "perhaps"}'])
async def test_heartbeats_go_on_after_a_malformed_answer(nonsense: bytes) -> None:
    answers = [httpx.Response(200, content=nonsense) for _ in range(3)]
    beats: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        beats.append(request)
        return answers.pop() if answers else httpx.Response(200, json={"stop": len(beats) > 5})

    http = httpx.AsyncClient(base_url="http://domain.test", transport=httpx.MockTransport(answer))
    line = AttemptClient(http, UUID(int=1), "token")
    async with line.beating(0.01):
        await eventually(line.stop.is_set)
    assert len(beats) > 5


async def test_heartbeats_go_on_after_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    line, faults = Answers().line(), [KeyError("ours"), ValueError("ours")]

    async def heartbeat(*_: object) -> None:
        if faults:
            raise faults.pop()
        line.stop.set("fenced")

    monkeypatch.setattr(line, "_heartbeat", heartbeat)
    async with line.beating(0.01):
        await eventually(line.stop.is_set)
    assert not faults


async def test_every_message_of_a_child_run_names_its_segment() -> None:
    domain = Answers()
    parent, child = domain.line(), domain.line()
    child.segment = 3
    for line in (parent, child):
        line.note(EVENT)
        await line.flush()
    assert [message.get("segment") for _, message in domain.heard] == [None, 3]


@pytest.mark.parametrize("status", [200, 409, 422, 503])
async def test_workers_are_told_of_a_child_run_once_whatever_the_domain_answers(status: int) -> None:
    domain = Answers(status=status)
    await domain.line().tell_worker("gdal")
    assert [(verb, told["sent_to"]) for verb, told in domain.heard] == [("heartbeat", "gdal")]


async def test_events_that_the_domain_refuses_do_not_hold_up_the_outcome() -> None:
    domain = Answers(status=422)
    line = domain.line()
    line.note(EVENT)
    await line.commit({}, [])
    domain.status = 200
    await line.flush()
    assert [verb for verb, _ in domain.heard] == ["heartbeat", "commit", "heartbeat"]
    assert domain.heard[-1][1]["events"] == []


async def test_unsent_events_go_with_the_next_message() -> None:
    domain = Answers(status=500)
    line = domain.line()
    line.note(EVENT)
    with pytest.raises(DomainUnreachable):
        await line.flush()
    domain.status = 200
    await line.flush()
    assert [event["node_id"] for event in domain.heard[-1][1]["events"]] == ["n"]


@pytest.mark.parametrize("away_seconds", [1, 59, 61, 120, 1800])
@pytest.mark.parametrize("verb", ["start", "commit", "fail", "register"])
async def test_an_outage_of_the_domain_is_waited_out(clock: Clock, verb: str, away_seconds: float) -> None:
    """What is done is not thrown away, and what was sent begins: a second try would cost more than the wait."""
    domain = Answers(is_away=lambda: clock.now < away_seconds)
    line = domain.line()
    line.note(EVENT)
    match verb:
        case "commit":
            await line.commit({}, [])
        case "fail":
            await line.fail(RunProblem(code="broken-raster", message="It is broken."))
        case "start":
            await domain_client.post(line.http, "/start", {}, line.stop)
        case _:
            await domain_client.post(line.http, "/register", {})
    assert domain.heard[-1][0] == verb
    assert away_seconds <= clock.now <= away_seconds + 2 * domain_client.LONGEST_DELAY_SECONDS, (
        "and heard of soon after"
    )


async def test_heartbeat_is_sent_soon_after_an_outage(clock: Clock) -> None:
    """The domain gives it a loss threshold, 90 s by default, from when it listens again."""
    domain = Answers(is_away=lambda: clock.now < 300)
    line = domain.line()
    beating = asyncio.create_task(line._beat(10.0))
    for _ in range(100_000):
        await asyncio.sleep(0)
        if domain.heard:
            break
    beating.cancel()
    assert {verb for verb, _ in domain.heard} == {"heartbeat"}
    assert 300 <= clock.now < 300 + 10


async def test_a_stop_ends_the_wait_for_a_start(clock: Clock) -> None:
    line = Answers(is_away=lambda: True).line()
    line.stop.set("draining")
    with pytest.raises(HeldBack):
        await domain_client.post(line.http, "/start", {}, line.stop)
    assert clock.now < 1


async def test_wait_of_a_flow_run_for_the_domain_is_bounded(clock: Clock) -> None:
    domain = Answers(is_away=lambda: True)
    with pytest.raises(DomainUnreachable, match="did not answer"):
        await domain.line().commit({}, [])
    assert time_budget.OUTAGE_SECONDS - domain_client.LONGEST_DELAY_SECONDS <= clock.now <= time_budget.OUTAGE_SECONDS


async def test_sending_events_blocks_for_a_bounded_time(clock: Clock) -> None:
    line = Answers(is_away=lambda: True).line()
    line.note(EVENT)
    with pytest.raises(DomainUnreachable):
        await line.flush()
    assert clock.now <= domain_client.NEWS_SECONDS


async def test_refused_message_is_not_repeated() -> None:
    domain = Answers(status=403)
    with pytest.raises(MessageRefused, match="status 403: why"):
        await domain_client.post(domain.line().http, "/heartbeat", {})
    assert len(domain.heard) == 1


@pytest.mark.parametrize("error", [InvalidInput("a\0b \ud800 c"), RuntimeError("a\0b \ud800 c")])
def test_error_message_is_made_storable(error: Exception) -> None:
    told = run_error(error, "n")
    assert "a\ufffdb \ufffd c" in told.message
    assert list(unstorable_places(run_problem(told).model_dump())) == []


def test_error_message_of_the_scheduler_is_made_storable() -> None:
    assert run_problem(RunError("template-error", "\0" * 5000)).message == "\ufffd" * 4000


async def test_progress_message_is_made_storable() -> None:
    line = Answers().line()
    executor = NodeExecutor(cast("RunContext", SimpleNamespace(line=line)), Stop())
    node = plan_of("  start: {type: start, next: n}\n  n: {handler: echo, next: end}\n  end: {type: end}").nodes["n"]
    executor._progress(Work(node, "n", {}))(0.5, "half \ud800\0 done")
    await asyncio.sleep(0)
    assert [event.message for event in line._events] == ["half \ufffd\ufffd done"]
