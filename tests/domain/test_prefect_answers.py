"""What Prefect may answer beside what it should: nothing of it may end a sweep or a relay."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED, temporary_settings

from domain.adapters import prefect_runs
from domain.adapters.prefect_runs import Misconfigured, NewFlowRun, PrefectRuns, Unclear
from domain.errors import Fenced
from domain.loops.reconciler import Reconciler
from domain.loops.relay import Relay
from domain.repositories import outbox
from domain.rules.reconcile import Action, FlowState, Patience
from domain.services.runs.endings import RunLifecycle
from domain.shared.database_address import DatabaseAddress
from tests.support.acts import call, submit, time_passes
from tests.support.clock import PATIENCE_SECONDS
from tests.support.platform import Domain
from tests.support.prefect_standin import StandIn, standing_in
from tests.support.scripted_prefect import ScriptedPrefect, attempts, sent, sweep

FENCE = "update app.attempts set state = 'fenced', finished_at = now() where run_id = %s returning 1"
RUN = NewFlowRun(key="k", name="n", parameters={}, tags=[], queue="normal")


@pytest.fixture
async def standin() -> AsyncIterator[StandIn]:
    async with standing_in() as running:
        yield running


@pytest.fixture
async def prefect(standin: StandIn) -> AsyncIterator[PrefectRuns]:
    with temporary_settings({PREFECT_API_URL: standin.url, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False}):
        async with PrefectRuns() as runs:
            yield runs


async def test_stopping_a_deleted_flow_run_changes_nothing(
    domain: Domain, standin: StandIn, prefect: PrefectRuns
) -> None:
    flow_run_id = await prefect.create("raster_ingest/raster_ingest", RUN)
    assert (await prefect.states([flow_run_id]))[flow_run_id] is FlowState.SCHEDULED
    standin.by_key.clear()
    await prefect.stop(flow_run_id, FlowState.SCHEDULED)
    assert (await prefect.states([flow_run_id]))[flow_run_id] is FlowState.MISSING


@pytest.mark.parametrize(
    ("seconds", "flow", "ended"), [(0, FlowState.CANCELLING, "CANCELLING"), (90, FlowState.OVERSTAYING, "CANCELLED")]
)
async def test_flow_run_that_does_not_stop_within_a_minute_is_ended(
    standin: StandIn, prefect: PrefectRuns, seconds: float, flow: FlowState, ended: str
) -> None:
    flow_run_id = await prefect.create("w/w", RUN)
    [run] = standin.by_key.values()
    since = datetime.now(UTC) - timedelta(seconds=seconds)
    run["state"] |= {"type": "CANCELLING", "name": "Cancelling", "timestamp": since.isoformat()}
    standin.stops_at_once = False
    assert (await prefect.states([flow_run_id]))[flow_run_id] is flow
    await prefect.stop(flow_run_id, flow)
    assert run["state"]["type"] == ended


async def test_child_runs_inside_ended_flow_runs_are_ended(standin: StandIn, prefect: PrefectRuns) -> None:
    around, other = [await prefect.create("w/w", replace(RUN, key=key)) for key in ("over", "other")]
    inner = standin.hold_inside(str(around), "RUNNING")
    innermost = standin.hold_inside(inner, "PENDING")
    ended, anothers = standin.hold_inside(str(around), "COMPLETED"), standin.hold_inside(str(other), "RUNNING")
    assert await prefect.end_inside([around])
    states = {run_id: standin.by_key[run_id]["state"]["type"] for run_id in (inner, innermost, ended, anothers)}
    assert states == {inner: "CRASHED", innermost: "CRASHED", ended: "COMPLETED", anothers: "RUNNING"}


async def test_child_run_on_another_pool_is_not_ended_with_the_flow_run_around_it(
    standin: StandIn, prefect: PrefectRuns
) -> None:
    """It has a process of its own, and a watch of its own over its life."""
    around = await prefect.create("w/w", RUN)
    child = standin.hold_inside(str(around), "RUNNING", str(uuid4()))
    assert await prefect.end_inside([around])
    assert standin.by_key[child]["state"]["type"] == "RUNNING"


async def test_child_runs_are_not_taken_for_ended_without_an_answer(
    standin: StandIn, prefect: PrefectRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standin, "handle", lambda *_call: "word")
    assert not await prefect.end_inside([uuid4()])


async def test_missing_deployment_is_reported_as_a_configuration_fault(
    standin: StandIn, prefect: PrefectRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standin, "handle", lambda *_call: None)
    with pytest.raises(Misconfigured, match="cairn deploy"):
        await prefect.create("raster_ingest/raster_ingest", RUN)


@pytest.mark.parametrize("nonsense", [[], "word", {"state": 7}, {"id": "not-one", "state": {}}, [{"id": 1}]])
async def test_senseless_answer_of_prefect_is_unclear(
    standin: StandIn, prefect: PrefectRuns, monkeypatch: pytest.MonkeyPatch, nonsense: Any
) -> None:
    monkeypatch.setattr(standin, "handle", lambda *_call: nonsense)
    with pytest.raises(Unclear):
        await prefect.create("raster_ingest/raster_ingest", RUN)
    await prefect.stop(uuid4(), FlowState.RUNNING)


class Poisonous(ScriptedPrefect):
    """Breaks in an unheard-of way at the first flow run that it is to stop or find."""

    async def stop(self, flow_run_id: Any, flow: FlowState) -> None:
        if not self.stopped:
            self.stopped.append(flow_run_id)
            raise RecursionError
        await super().stop(flow_run_id, flow)


async def test_flow_run_that_breaks_the_sweep_does_not_hold_up_others(domain: Domain) -> None:
    prefect = Poisonous()
    for number in range(2):
        flow = await sent(domain, prefect, "running", refs={"dataset_id": "d", "resource_id": str(number)})
        domain.rows(FENCE, flow.run_id)
    time_passes(domain, 400)
    assert await sweep(domain, prefect) == {Action.LEAVE: 1, Action.STOP_FLOW: 1}


async def test_reconciler_goes_on_after_an_unforeseen_error(domain: Domain) -> None:
    looks = 0

    class Broken(ScriptedPrefect):
        async def states(self, flow_run_ids: Any) -> dict[Any, FlowState]:
            nonlocal looks
            looks += 1
            raise RecursionError

    await sent(domain, ScriptedPrefect(), "running")
    time_passes(domain, 400)
    sweeping = asyncio.create_task(Reconciler(domain.service.database, Broken(), 0.05, Patience(), 3).run())
    for _ in range(100):
        await asyncio.sleep(0.05)
        if looks > 2:
            break
    assert not sweeping.done()
    sweeping.cancel()
    assert looks > 2


async def test_attempt_that_cannot_be_sent_does_not_hold_up_others(
    domain: Domain, prefect: PrefectRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        await submit(domain, refs={"dataset_id": "d", "resource_id": str(number)})
    poisoned = domain.rows("select run_id from app.attempts limit 1")[0][0]
    good = outbox.key

    def key(workflow_id: str, run_id: Any, number: int) -> str:
        if run_id == poisoned:
            raise RecursionError
        return good(workflow_id, run_id, number)

    monkeypatch.setattr(outbox, "key", key)
    relay = Relay(domain.service.database, DatabaseAddress(domain.database.url("cairn_app")), 1.0)
    assert len((await relay.send_due(prefect)).dispatches) == 2
    assert sorted(str(state) for _, state in attempts(domain)) == ["sending", "sent"]


@pytest.mark.parametrize("again", [False, True])
async def test_a_refusal_that_comes_after_a_cancellation_changes_nothing(domain: Domain, again: bool) -> None:
    """Neither the cancelled request, nor the attempt that a rerun has made since."""
    await submit(domain)
    [dispatch] = await outbox.claim(domain.service.database, 1)
    stop = f"/requests/{dispatch.request_id}/cancel"
    assert (await call(domain, "operator", "POST", stop, {"reason": "a test"})).is_success
    if again:
        rerun = await call(domain, "operator", "POST", f"/runs/{dispatch.run_id}/rerun", {})
        assert rerun.status_code == 202, rerun.text
    stands = "select q.status, r.state, r.reason from app.requests q join app.runs r using (request_id)"
    before = domain.rows(stands), attempts(domain)
    with pytest.raises(Fenced):
        async with domain.service.database.transaction() as session:
            await RunLifecycle(session).refuse_dispatch(dispatch.run_id, dispatch.token, "no such thing")
    assert (domain.rows(stands), attempts(domain)) == before


async def test_a_run_that_prefect_refuses_is_parked(domain: Domain) -> None:
    await submit(domain)
    [dispatch] = await outbox.claim(domain.service.database, 1)
    async with domain.service.database.transaction() as session:
        await RunLifecycle(session).refuse_dispatch(dispatch.run_id, dispatch.token, "no such thing")
    assert domain.rows("select state, reason, problem ->> 'code' from app.runs") == [
        ("failed", "parked", "dispatch-refused")
    ]
    assert attempts(domain) == [(1, "fenced")]


@dataclass
class BlackHole:
    """Takes every connection and question, and answers none."""

    url: str = ""
    asked: int = 0

    async def swallow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await reader.read()


@pytest.fixture
async def nowhere(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[BlackHole]:
    monkeypatch.setattr(prefect_runs, "ANSWER_SECONDS", 0.3)
    hole = BlackHole()
    server = await asyncio.start_server(hole.swallow, "127.0.0.1", 0)
    hole.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api"
    with temporary_settings({PREFECT_API_URL: hole.url, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False}):
        yield hole
    server.close()


async def test_prefect_without_answers_is_asked_once_per_sweep_and_no_attempt_ends(
    domain: Domain, nowhere: BlackHole
) -> None:
    """Its client would ask each of these questions six times, for minutes. Ten attempts are quiet, and none is lost."""
    scripted, attempts_in_doubt = ScriptedPrefect(), 10
    for number in range(attempts_in_doubt):
        await sent(domain, scripted, "running", refs={"dataset_id": "d", "resource_id": str(number)})
    domain.rows("update app.attempts set flow_run_id = null where number = 1 returning 1")
    time_passes(domain, 80)
    async with PrefectRuns() as prefect:
        async with asyncio.timeout(20):  # one question of the stock client takes seven minutes here
            done = await Reconciler(domain.service.database, prefect, 60, Patience(), max_attempts=3).sweep()
    assert nowhere.asked <= 2, "one question, and perhaps its second connection, for all of them"
    assert {Action.LOSE, Action.FAIL_ENDED, Action.CANCEL}.isdisjoint(done)
    assert {state for _, state in attempts(domain)} <= {"sent", "started"}


async def test_a_start_is_given_its_time_anew_after_an_outage_of_prefect(domain: Domain) -> None:
    """Workers take nothing up without it. The same sweep goes on that met the outage."""
    prefect = ScriptedPrefect()
    flow = await sent(domain, prefect, "pending")
    reconciler = Reconciler(domain.service.database, prefect, 60, Patience(), max_attempts=3)
    time_passes(domain, 600)
    for told in (FlowState.UNKNOWN, FlowState.PENDING):
        prefect.flows[flow.flow_run_id] = told
        assert await reconciler.sweep() == {Action.LEAVE: 1}
    reconciler.answers.missed_at -= 120
    assert await reconciler.sweep() == {Action.LOSE: 1}


async def test_attempt_is_sent_once_prefect_answers_again(domain: Domain, nowhere: BlackHole, standin: StandIn) -> None:
    await submit(domain)
    address = DatabaseAddress(domain.database.url("cairn_app"))
    relay = Relay(domain.service.database, address, poll_seconds=1, retry_seconds=0.01)
    async with PrefectRuns() as prefect:
        async with asyncio.timeout(20):
            assert len((await relay.send_due(prefect)).dispatches) == 1
    assert domain.rows("select state from app.attempts") == [("sending",)]
    with temporary_settings({PREFECT_API_URL: standin.url, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False}):
        async with PrefectRuns() as back:
            until = time.monotonic() + PATIENCE_SECONDS
            while not (await relay.send_due(back)).dispatches:
                assert time.monotonic() < until
                await asyncio.sleep(0.02)
    assert domain.rows("select state from app.attempts") == [("sent",)]
    assert len(standin.by_key) == 1
