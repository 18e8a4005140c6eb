"""A cancellation in every state of a run: final at once, heard by who works for it at once, its flow runs seen to."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from domain.app import create_app
from domain.contracts.runs import NodeEvent
from domain.loops.reconciler import Reconciler
from domain.repositories import outbox
from domain.rules.reconcile import Action, FlowState, Patience
from domain.shared.notices import FENCE_CHANNEL
from flows.runs.domain_client import LONGEST_HOLD_SECONDS, AttemptClient
from tests.support.acts import Flow, call, dispatched, started, submit, time_passes
from tests.support.clock import eventually
from tests.support.platform import Domain, domain_settings
from tests.support.scripted_prefect import ScriptedPrefect, sweep

LONGEST = 30  # seconds that anybody may wait: an answer within them was not waited out

WHY = {"reason": "because"}
LOST = {"code": "stopped", "message": "It was stopped."}
STATES = ["queued", "sending", "sent", "held", "started", "with-child", "retrying", "handed-over", "retried"]


async def brought_to(domain: Domain, state: str) -> Flow:
    """A flow run of an attempt in this state; of the newest, where there are two."""
    await submit(domain)
    if state == "queued":
        [(run_id, token)] = domain.rows("select run_id, token from app.attempts")
        return Flow(domain, run_id, token)
    [flow] = await dispatched(domain)
    if state in {"sent", "held"}:
        await outbox.link(domain.service.database, flow.run_id, 1, flow.flow_run_id)
    if state == "held":
        await call(domain, "operator", "POST", "/pause", WHY)
        assert (await flow.start()).status_code == 503
    if state in {"queued", "sending", "sent", "held"}:
        return flow
    assert (await flow.start()).is_success
    if state == "with-child":
        assert (await Flow(domain, flow.run_id, flow.token).start(segment=1)).is_success
    if state in {"retrying", "handed-over"}:
        await flow.fail("lost" if state == "retrying" else "handed-over", **LOST)
    if state == "retried":
        await flow.fail()
        token = (await flow.start(run_count=2)).json()["attempt_token"]
        return Flow(domain, flow.run_id, token, flow.flow_run_id)
    return flow


@pytest.mark.parametrize("state", STATES)
async def test_a_run_is_cancelled_at_once_in_every_state(domain: Domain, state: str) -> None:
    flow = await brought_to(domain, state)
    assert (await call(domain, "operator", "POST", f"/runs/{flow.run_id}/cancel", WHY)).is_success
    assert domain.rows("select r.state, q.status from app.runs r join app.requests q using (request_id)") == [
        ("cancelled", "cancelled")
    ]
    await call(domain, "operator", "POST", "/resume", {})
    assert await dispatched(domain) == []
    assert (await flow.start()).status_code == 409
    assert (await flow.beat()).json() == {"stop": True}
    assert (await flow.commit()).status_code == 409
    assert (await Flow(domain, flow.run_id, flow.token).start(segment=2)).status_code == 409
    live = "select count(*) from app.attempts where state in ('ready', 'sending', 'sent', 'started')"
    assert domain.rows(live) == [(0,)]


async def test_a_cancelled_run_is_refused_at_once_while_work_is_paused(domain: Domain) -> None:
    flow = await brought_to(domain, "held")
    await call(domain, "operator", "POST", f"/runs/{flow.run_id}/cancel", WHY)
    assert (await flow.start()).status_code == 409, "it would hold its worker's slot until the pause ends"


async def test_a_flow_run_that_was_created_while_its_run_was_cancelled_is_linked_and_stopped(domain: Domain) -> None:
    await submit(domain)
    [claimed] = await outbox.claim(domain.service.database, 10)
    await call(domain, "operator", "POST", f"/runs/{claimed.run_id}/cancel", WHY)
    flow = Flow(domain, claimed.run_id, claimed.token)  # Prefect's answer comes now
    await outbox.link(domain.service.database, claimed.run_id, claimed.number, flow.flow_run_id)
    assert domain.rows("select state, flow_run_id from app.attempts") == [("fenced", flow.flow_run_id)]
    await stopped_by_sweeps(domain, flow, ScriptedPrefect({flow.flow_run_id: FlowState.SCHEDULED}))


async def test_flow_run_whose_sender_died_before_linking_it_is_found_and_stopped(domain: Domain) -> None:
    await submit(domain)
    [claimed] = await outbox.claim(domain.service.database, 10)
    flow = Flow(domain, claimed.run_id, claimed.token)
    await call(domain, "operator", "POST", f"/runs/{claimed.run_id}/cancel", WHY)
    key = outbox.key(claimed.workflow_id, claimed.run_id, claimed.number)
    prefect = ScriptedPrefect({flow.flow_run_id: FlowState.SCHEDULED}, {key: flow.flow_run_id})
    assert await sweep(domain, prefect) == {}, "its sender may still be at it"
    time_passes(domain, 61)
    assert await sweep(domain, prefect) == {Action.LINK: 1}
    await stopped_by_sweeps(domain, flow, prefect)


async def test_attempt_fenced_before_it_was_sent_is_looked_for_once(domain: Domain) -> None:
    await submit(domain)
    [claimed] = await outbox.claim(domain.service.database, 10)
    await call(domain, "operator", "POST", f"/runs/{claimed.run_id}/cancel", WHY)
    time_passes(domain, 61)
    assert await sweep(domain, ScriptedPrefect()) == {Action.DISPOSE: 1}
    assert await sweep(domain, ScriptedPrefect()) == {}


async def stopped_by_sweeps(domain: Domain, flow: Flow, prefect: ScriptedPrefect) -> None:
    time_passes(domain, 11)
    assert await sweep(domain, prefect) == {Action.STOP_FLOW: 1}
    assert prefect.stopped == [flow.flow_run_id]
    prefect.flows[flow.flow_run_id] = FlowState.CANCELLED
    assert await sweep(domain, prefect) == {Action.DISPOSE: 1}


async def test_held_heartbeat_hears_of_a_cancellation_in_another_process(domain: Domain, tmp_path: Path) -> None:
    await submit(domain)
    flow = await started(domain)
    other = create_app(domain_settings(domain.database, tmp_path))
    async with other.router.lifespan_context(other):
        await domain.until_listened(FENCE_CHANNEL, processes=2)
        begun = time.monotonic()
        waiting = asyncio.create_task(flow.say("heartbeat", wait_seconds=LONGEST))
        await eventually(lambda: domain.service.fences._waiting)
        transport, headers = httpx.ASGITransport(other), {"Authorization": "Bearer secret-operator"}
        async with httpx.AsyncClient(transport=transport, base_url="http://other", headers=headers) as operator:
            await operator.post(f"/api/v1/runs/{flow.run_id}/cancel", json=WHY)
            assert (await waiting).json() == {"stop": True}
    assert time.monotonic() - begun < LONGEST


async def test_held_heartbeat_without_news_ends_in_time(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    begun = time.monotonic()
    assert (await flow.say("heartbeat", wait_seconds=0.5)).json() == {"stop": False}
    assert time.monotonic() - begun >= 0.5
    assert (await flow.say("heartbeat", wait_seconds=31)).status_code == 422


async def test_hundreds_of_held_heartbeats_need_few_connections_and_one_is_woken(domain: Domain) -> None:
    flows = []
    for number in range(50):
        await submit(domain, refs={"dataset_id": "d", "resource_id": str(number)})
        flows.append(await started(domain))
    waiting = [asyncio.create_task(flow.say("heartbeat", wait_seconds=LONGEST)) for flow in flows for _ in range(2)]
    assert await all_wait(domain), "who waits holds no connection"
    await call(domain, "operator", "POST", f"/runs/{flows[7].run_id}/cancel", WHY)
    await asyncio.wait(waiting[14:16], timeout=10)
    assert [place for place, task in enumerate(waiting) if task.done()] == [14, 15]
    domain.service.fences.close()  # as a server does that is told to stop
    answers = await asyncio.gather(*waiting)
    assert sum(answer.json()["stop"] for answer in answers) == 2, "nobody else is told to stop"


async def all_wait(domain: Domain) -> bool:
    """Whether, within a while, nobody has a statement or a transaction under way."""
    busy = """
        select count(*) from pg_stat_activity
        where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()
    """
    quiet = 0
    for _ in range(300):
        await asyncio.sleep(0.1)
        quiet = quiet + 1 if domain.rows(busy) == [(0,)] else 0
        if quiet == 5:
            return True
    return False


@pytest.mark.parametrize(("state", "soonest"), [("scheduled", 0.0), ("running", 1.0)])
async def test_flow_runs_of_a_cancelled_run_are_stopped_before_the_next_sweep(
    domain: Domain, state: str, soonest: float
) -> None:
    """The next sweep would be in ten minutes."""
    flow = await brought_to(domain, "sent" if state == "scheduled" else "started")
    prefect = ScriptedPrefect({flow.flow_run_id: FlowState(state)})
    patience = Patience(stop_fenced=1.0)
    reconciler = Reconciler(domain.service.database, prefect, 600, patience, 3, domain.service.fences.heard)
    sweeping = asyncio.create_task(reconciler.run())
    await domain.until_listened(FENCE_CHANNEL)
    begun = time.monotonic()
    await call(domain, "operator", "POST", f"/runs/{flow.run_id}/cancel", WHY)
    await eventually(lambda: prefect.stopped)
    took = time.monotonic() - begun
    sweeping.cancel()
    assert prefect.stopped[:1] == [flow.flow_run_id]
    assert soonest <= took


@pytest.fixture
async def line(domain: Domain) -> AsyncIterator[AttemptClient]:
    """A started flow run's own line to the domain."""
    await submit(domain)
    flow = await started(domain)
    async with domain.as_("worker") as http:
        yield AttemptClient(http, flow.run_id, flow.token)


async def test_domain_client_hears_of_a_cancellation_before_its_next_heartbeat(
    domain: Domain, line: AttemptClient
) -> None:
    """Its next beat would be in ten minutes; the domain holds the answer to this one for twenty seconds."""
    await domain.until_listened(FENCE_CHANNEL)
    begun = time.monotonic()
    async with line.beating(600):
        await eventually(lambda: domain.service.fences._waiting)
        await call(domain, "operator", "POST", f"/runs/{line.run_id}/cancel", WHY)
        await eventually(line.stop.is_set)
    assert time.monotonic() - begun < LONGEST_HOLD_SECONDS


async def test_domain_client_sends_events_noted_while_a_heartbeat_is_held(domain: Domain, line: AttemptClient) -> None:
    begun = time.monotonic()
    async with line.beating(20):
        await eventually(lambda: domain.service.fences._waiting)
        line.note(NodeEvent(node_id="validate", state="running"))
        noted = "select state from app.run_nodes where node_id = 'validate'"
        await eventually(lambda: domain.rows(noted) == [("running",)])
        assert time.monotonic() - begun < 20
    async with line.beating(0.3):
        [before] = domain.rows("select heartbeat_at from app.attempts")
        await eventually(lambda: domain.rows("select heartbeat_at from app.attempts") > [before])
    assert not line.stop.is_set()
