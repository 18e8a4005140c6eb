"""A batch of attempts is sent by one question; what goes wrong with it is found out one by one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED, temporary_settings

from domain.adapters.prefect_runs import NewFlowRun, PrefectRuns
from domain.loops import relay as relay_module
from domain.loops.relay import Relay
from domain.repositories import outbox
from domain.shared.database_address import DatabaseAddress
from tests.support.acts import submit
from tests.support.clock import eventually
from tests.support.platform import Domain
from tests.support.prefect_standin import StandIn, standing_in

COUNT = 5
LINKED = "select run_id, number, flow_run_id from app.attempts where state = 'sent'"


@dataclass
class Counting(StandIn):
    """Counts the questions by which flow runs are made, and may have a fault with those for many."""

    asked: list[str] = field(default_factory=list)
    fault: str = ""

    def handle(self, method: str, path: str, body: Any) -> Any:
        if "create_flow_run" not in path:
            return super().handle(method, path, body)
        self.asked.append("together" if path.endswith("bulk") else "alone")
        if self.fault and self.asked[-1] == "together":
            return self._faulty(body)
        return super().handle(method, path, body)

    def _faulty(self, body: list[Any]) -> Any:
        """Answer as a server that does not know the question, or one whose transaction kept nothing of what it told."""
        told = [{"status": "CREATED", "flow_run_id": str(uuid4())} for _ in body[1:]]
        return {
            "unknown": None,
            "one failed": {"results": [*told, {"status": "FAILED", "error": "no"}]},
            "senseless": {"results": ["word"]},
        }[self.fault]


@pytest.fixture
async def standin() -> AsyncIterator[Counting]:
    counting = Counting()
    async with standing_in(given=counting):
        yield counting


@pytest.fixture
async def prefect(standin: Counting) -> AsyncIterator[PrefectRuns]:
    with temporary_settings({PREFECT_API_URL: standin.url, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False}):
        async with PrefectRuns() as runs:
            yield runs


async def wait_in_line(domain: Domain, count: int = COUNT) -> None:
    for _ in range(count):
        assert (await submit(domain, refs={"dataset_id": "d", "resource_id": uuid4().hex})).status_code == 202


def relay(domain: Domain) -> Relay:
    return Relay(domain.service.database, DatabaseAddress(domain.database.url("cairn_app")), 1.0)


def flow_runs(standin: StandIn) -> set[tuple[UUID, int, UUID]]:
    """What there is in Prefect, as the domain should have linked it."""
    return {
        (UUID(run["parameters"]["run_id"]), int(key.rpartition(":")[2]), UUID(run["id"]))
        for key, run in standin.by_key.items()
    }


async def test_attempts_of_one_workflow_are_sent_by_one_question(
    domain: Domain, standin: Counting, prefect: PrefectRuns
) -> None:
    await wait_in_line(domain)
    await relay(domain).send_due(prefect)
    assert standin.asked == ["together"]
    assert set(domain.rows(LINKED)) == flow_runs(standin)
    assert len(flow_runs(standin)) == COUNT


@pytest.mark.parametrize("fault", ["unknown", "one failed", "senseless"])
async def test_attempts_that_cannot_be_sent_together_are_sent_alone_for_a_while(
    domain: Domain, standin: Counting, prefect: PrefectRuns, fault: str
) -> None:
    standin.fault = fault
    await wait_in_line(domain)
    await relay(domain).send_due(prefect)
    assert set(domain.rows(LINKED)) == flow_runs(standin)
    assert len(flow_runs(standin)) == COUNT
    await wait_in_line(domain)
    await relay(domain).send_due(prefect)
    assert standin.asked == ["together", *["alone"] * 2 * COUNT]


async def test_workflow_that_cannot_be_sent_together_keeps_no_other_from_it(
    standin: Counting, prefect: PrefectRuns
) -> None:
    wanted = [NewFlowRun(key=key, name="n", parameters={}, tags=[], queue="normal") for key in ("one", "other")]
    standin.fault = "unknown"
    assert await prefect.create_together("a/a", wanted) is None
    standin.fault = ""
    assert await prefect.create_together("a/a", wanted) is None, "not again so soon"
    assert len(await prefect.create_together("b/b", wanted) or []) == len(wanted)


async def test_a_lost_answer_about_many_makes_no_second_flow_run(
    domain: Domain, standin: Counting, prefect: PrefectRuns
) -> None:
    standin.drop_rate = 1.0
    await wait_in_line(domain)
    sending = asyncio.create_task(relay(domain).send_due(prefect))
    await eventually(lambda: standin.dropped > 0)
    standin.drop_rate = 0.0
    await sending
    domain.rows("update app.attempts set lease_until = now() - interval '1 s' where state = 'sending' returning 1")
    await relay(domain).send_due(prefect)
    assert set(domain.rows(LINKED)) == flow_runs(standin)
    assert len(flow_runs(standin)) == COUNT


async def test_attempt_that_another_transaction_holds_keeps_no_other_from_being_linked(domain: Domain) -> None:
    await wait_in_line(domain)
    made = [(dispatch, uuid4()) for dispatch in await outbox.claim(domain.service.database, COUNT)]
    held = made[2][0].run_id
    async with await psycopg.AsyncConnection.connect(domain.database.url()) as other:
        await other.execute("select 1 from app.attempts where run_id = %s for update", [held])
        linking = asyncio.create_task(outbox.link_together(domain.service.database, made))
        await eventually(lambda: len(domain.rows(LINKED)) == COUNT - 1)
        assert not linking.done()
    await linking
    assert set(domain.rows(LINKED)) == {(dispatch.run_id, 1, flow_run_id) for dispatch, flow_run_id in made}


async def test_next_batch_is_chosen_while_prefect_makes_the_last(
    domain: Domain, standin: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "BATCH", 2)
    await wait_in_line(domain, 3 * 2)
    standin.reachable.clear()
    with temporary_settings({PREFECT_API_URL: standin.url, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False}):
        running = asyncio.create_task(relay(domain).run())
        try:
            taken = "select count(*) from app.attempts where state = 'sending'"
            await eventually(lambda: domain.rows(taken) == [(4,)])
            standin.reachable.set()
            await eventually(lambda: len(domain.rows(LINKED)) == 6)
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
    assert set(domain.rows(LINKED)) == flow_runs(standin)
