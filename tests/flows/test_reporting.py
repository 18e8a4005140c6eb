"""What a run tells the domain, and what becomes of it where the domain is silent or takes it not."""

import asyncio
import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import httpx
import pytest

from domain.contracts.runs import NodeEvent
from domain.rules.texts import unkept
from flows import reporting
from flows.compiler import RunError
from flows.engine import Engine
from flows.errors import InvalidInput
from flows.reporting import DomainUnreachable, Line, Refused
from flows.runner import run_problem
from flows.stopping import Stop
from flows.work import Hands, Work, run_error
from tests.flows.compiler.support import plan_of

ENDED = {"run_id": str(UUID(int=1)), "state": "completed"}


@dataclass
class Answers:
    """A stand-in for the domain: answers heartbeats with a status, and everything else well."""

    status: int = 200
    heard: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        verb = request.url.path.rpartition("/")[2]
        self.heard.append((verb, json.loads(request.content)))
        return httpx.Response(
            self.status if verb == "heartbeat" else 200, json={**ENDED, "stop": False, "detail": "why"}
        )

    def line(self) -> Line:
        http = httpx.AsyncClient(base_url="http://domain.test", transport=httpx.MockTransport(self))
        return Line(http, UUID(int=1), "token")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "FIRST_DELAY_SECONDS", 0.0)


EVENT = NodeEvent(node_id="n", state="running")


async def test_events_that_the_domain_refuses_do_not_hold_up_the_outcome() -> None:
    domain = Answers(status=422)
    line = domain.line()
    line.note(EVENT)
    await line.commit({}, [])
    domain.status = 200
    await line.flush()
    assert [verb for verb, _ in domain.heard] == ["heartbeat", "commit", "heartbeat"]
    assert domain.heard[-1][1]["events"] == []


async def test_events_that_were_not_heard_go_with_the_next_message() -> None:
    domain = Answers(status=500)
    line = domain.line()
    line.note(EVENT)
    with pytest.raises(DomainUnreachable):
        await line.flush()
    domain.status = 200
    await line.flush()
    assert [event["node_id"] for event in domain.heard[-1][1]["events"]] == ["n"]


async def test_a_refusal_is_not_repeated() -> None:
    domain = Answers(status=403)
    with pytest.raises(Refused, match="status 403: why"):
        await reporting.post(domain.line().http, "/heartbeat", {})
    assert len(domain.heard) == 1


@pytest.mark.parametrize("error", [InvalidInput("a\0b \ud800 c"), RuntimeError("a\0b \ud800 c")])
def test_an_error_is_told_in_letters_that_can_be_kept(error: Exception) -> None:
    told = run_error(error, "n")
    assert "a\ufffdb \ufffd c" in told.message
    assert list(unkept(run_problem(told).model_dump())) == []


def test_so_is_one_that_the_scheduler_made() -> None:
    assert run_problem(RunError("template-error", "\0" * 5000)).message == "\ufffd" * 4000


async def test_so_is_progress() -> None:
    line = Answers().line()
    hands = Hands(cast("Engine", SimpleNamespace(line=line)), Stop())
    node = plan_of("  start: {type: start, next: n}\n  n: {handler: echo, next: end}\n  end: {type: end}").nodes["n"]
    hands._progress(Work(node, "n", {}))(0.5, "half \ud800\0 done")
    await asyncio.sleep(0)
    assert [event.message for event in line._events] == ["half \ufffd\ufffd done"]
