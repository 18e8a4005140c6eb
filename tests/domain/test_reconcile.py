"""The sweep against a real database and a scripted Prefect: each row of its table, once, to the end."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from domain.after_commit import AfterCommit
from domain.loops.reconciler import Reconciler
from domain.repositories import outbox
from domain.repositories.sweep import Sweep
from domain.rules.reconcile import Action, FlowState
from domain.shared.database_address import DatabaseAddress
from tests.support.acts import Flow, call, started, submit, time_passes
from tests.support.clock import eventually
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, running_domain
from tests.support.scripted_prefect import ScriptedPrefect, attempts, sent, sweep


async def test_attempt_that_was_never_sent_is_returned_to_the_relay(domain: Domain) -> None:
    await submit(domain)
    await outbox.claim(domain.service.database, 10)
    time_passes(domain, 61)
    assert await sweep(domain, ScriptedPrefect()) == {Action.RETURN: 1}
    assert len(await outbox.claim(domain.service.database, 10)) == 1


async def test_attempt_that_was_sent_after_all_is_linked_to_its_flow_run(domain: Domain) -> None:
    await submit(domain)
    [claimed] = await outbox.claim(domain.service.database, 10)
    time_passes(domain, 61)
    flow_run_id = uuid4()
    key = f"raster_ingest/raster_ingest:{claimed.run_id}:1"
    prefect = ScriptedPrefect({flow_run_id: FlowState.COMPLETED}, {key: flow_run_id})
    assert await sweep(domain, prefect) == {Action.LINK: 1}
    assert domain.rows("select state, flow_run_id from app.attempts") == [("sent", flow_run_id)]


@pytest.mark.parametrize(
    ("state", "quiet", "action", "left"),
    [
        ("scheduled", 121, Action.WARN, [(1, "sent")]),
        ("pending", 119, Action.LEAVE, [(1, "sent")]),
        ("pending", 121, Action.LOSE, [(1, "fenced"), (2, "ready")]),
        ("beginning", 121, Action.LEAVE, [(1, "sent")]),
        ("running", 119, Action.LEAVE, [(1, "sent")]),
        ("running", 121, Action.LOSE, [(1, "fenced"), (2, "ready")]),
        ("crashed", 11, Action.LOSE, [(1, "fenced"), (2, "ready")]),
        ("completed", 11, Action.FAIL_ENDED, [(1, "fenced"), (2, "ready")]),
        ("cancelled", 11, Action.CANCEL, [(1, "fenced")]),
    ],
)
async def test_sent_attempt_without_a_start_is_judged_by_state_and_age(
    domain: Domain, state: str, quiet: float, action: Action, left: list[tuple[int, str]]
) -> None:
    prefect = ScriptedPrefect()
    await sent(domain, prefect, state)
    time_passes(domain, quiet)
    assert await sweep(domain, prefect) == {action: 1}
    assert attempts(domain) == left


async def test_attempts_that_never_began_are_not_counted_against_their_run(domain: Domain) -> None:
    """Nine attempts come to nothing before any work has begun; then three that had begun, of which the third parks."""
    prefect = ScriptedPrefect()
    for state, quiet in (("pending", 121), ("running", 121), ("crashed", 11)) * 3:
        await sent_again(domain, prefect, state) if prefect.flows else await sent(domain, prefect, state)
        time_passes(domain, quiet)
        assert (await sweep(domain, prefect))[Action.LOSE] == 1
        prefect.flows = dict.fromkeys(prefect.flows, FlowState.CANCELLED)
    assert domain.rows(
        "select count(*), min(details->>'attempt') from app.events where kind = 'attempt.not-begun'"
    ) == [(9, "1")]
    for left in ("pending", "pending", "failed"):
        assert (await (await started(domain)).fail("lost")).json()["state"] == left
    [(message,)] = domain.rows("select problem->>'message' from app.runs")
    assert message.startswith("Given up after 3 attempts")


async def sent_again(domain: Domain, prefect: ScriptedPrefect, state: str) -> None:
    [claimed] = await outbox.claim(domain.service.database, 10)
    flow_run_id = uuid4()
    await outbox.link(domain.service.database, claimed.run_id, claimed.number, flow_run_id)
    prefect.flows[flow_run_id] = FlowState(state)


async def test_run_that_no_process_ever_begins_is_parked(domain: Domain) -> None:
    prefect = ScriptedPrefect()
    await sent(domain, prefect, "crashed")
    for _ in range(20):
        time_passes(domain, 11)
        await sweep(domain, prefect)
        prefect.flows.clear()
        await sent_again(domain, prefect, "crashed")
    time_passes(domain, 11)
    await sweep(domain, prefect)
    [(reason, code, message)] = domain.rows("select reason, problem->>'code', problem->>'message' from app.runs")
    assert (reason, code) == ("parked", "attempts-exhausted")
    assert message.startswith("Nothing has begun it in 21 attempts")


async def test_sent_attempt_is_given_as_long_to_start_as_its_queue_takes(domain: Domain) -> None:
    """Six wait to begin and three began lately: two minutes, and four for what waits. Without those, two minutes."""
    prefect = ScriptedPrefect()
    refs = [{"dataset_id": "elevation", "resource_id": str(number)} for number in range(9)]
    for one in refs[:6]:
        await sent(domain, prefect, "pending", refs=one)
    time_passes(domain, 300)
    for one in refs[6:]:
        await submit(domain, refs=one)
        flow = await started(domain)
        await flow.commit()
        prefect.flows[flow.flow_run_id] = FlowState.COMPLETED
    assert Action.LOSE not in await sweep(domain, prefect)
    time_passes(domain, 61)
    assert (await sweep(domain, prefect))[Action.LOSE] == 6


async def test_a_start_that_was_held_is_not_taken_for_lost_when_the_pause_ends(domain: Domain) -> None:
    prefect = ScriptedPrefect()
    flow = await sent(domain, prefect, "running")
    await call(domain, "operator", "POST", "/pause", {"reason": "a test"})
    time_passes(domain, 1_000)
    assert (await flow.start()).status_code == 503
    await call(domain, "operator", "POST", "/resume", {})
    assert await sweep(domain, prefect) == {}
    time_passes(domain, 121)
    assert await sweep(domain, prefect) == {Action.LOSE: 1}


@pytest.mark.parametrize(
    ("state", "quiet", "action", "left"),
    [
        ("running", 89, Action.WARN, [(1, "started")]),
        ("running", 91, Action.LOSE, [(1, "fenced"), (2, "ready")]),
        ("unknown", 91, Action.LOSE, [(1, "fenced"), (2, "ready")]),
        ("crashed", 21, Action.LOSE, [(1, "fenced"), (2, "ready")]),
        ("completed", 21, Action.FAIL_ENDED, [(1, "fenced"), (2, "ready")]),
        ("cancelled", 11, Action.CANCEL, [(1, "fenced")]),
    ],
)
async def test_silent_started_attempt_is_judged_by_state_and_age(
    domain: Domain, state: str, quiet: float, action: Action, left: list[tuple[int, str]]
) -> None:
    await submit(domain)
    flow = await started(domain)
    time_passes(domain, quiet)
    prefect = ScriptedPrefect({flow.flow_run_id: FlowState(state)})
    assert await sweep(domain, prefect) == {action: 1}
    assert attempts(domain) == left
    if action is Action.CANCEL:
        assert domain.rows("select status from app.requests") == [("cancelled",)]


async def test_an_attempt_that_just_spoke_is_left_alone_whatever_prefect_says(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    assert await sweep(domain, ScriptedPrefect({flow.flow_run_id: FlowState.CRASHED})) == {}
    assert (await flow.commit()).json()["state"] == "completed"


async def test_attempt_between_two_heartbeats_is_left_alone_whatever_prefect_says(domain: Domain) -> None:
    """An automation marks flow runs whose heartbeats reached Prefect late. Ours come every ten seconds."""
    await submit(domain)
    flow = await started(domain)
    marked = ScriptedPrefect({flow.flow_run_id: FlowState.CRASHED})
    for _ in range(3):
        time_passes(domain, 12)
        assert await sweep(domain, marked) == {Action.LEAVE: 1}
        assert (await flow.beat()).json() == {"stop": False}
    assert (await flow.commit()).json()["state"] == "completed"


async def test_dead_parent_is_found_though_its_child_run_beats(domain: Domain) -> None:
    """It alone could hand in the outcome. The child hears that its attempt is over, and its work is remembered."""
    await submit(domain)
    parent = await started(domain)
    child = Flow(domain, parent.run_id, parent.token)
    assert (await child.start(segment=1)).is_success
    node = domain.rows("select node_id from app.run_nodes where run_id = %s limit 1", parent.run_id)[0][0]
    prefect = ScriptedPrefect({parent.flow_run_id: FlowState.RUNNING, child.flow_run_id: FlowState.RUNNING})
    for _ in range(9):
        time_passes(domain, 10.1)
        told = await child.say("heartbeat", segment=1, events=[{"node_id": node, "state": "running"}])
        assert told.json() == {"stop": False}
    assert domain.rows("select state from app.run_nodes where node_id = %s", node) == [("running",)]
    assert await sweep(domain, prefect) == {Action.LOSE: 1}
    assert attempts(domain) == [(1, "fenced"), (2, "ready")]
    assert (await child.say("heartbeat", segment=1)).json()["stop"]


async def test_parent_that_beats_keeps_its_attempt_whatever_its_child_does(domain: Domain) -> None:
    await submit(domain)
    parent = await started(domain)
    for _ in range(9):
        time_passes(domain, 10.1)
        assert (await parent.beat()).json() == {"stop": False}
    assert await sweep(domain, ScriptedPrefect({parent.flow_run_id: FlowState.RUNNING})) == {}


async def test_a_deleted_flow_run_is_replaced_and_noted(domain: Domain) -> None:
    prefect = ScriptedPrefect()
    flow = await sent(domain, prefect, "scheduled")
    prefect.flows.clear()
    time_passes(domain, 11)
    assert await sweep(domain, prefect) == {Action.LOSE: 1}
    assert attempts(domain) == [(1, "fenced"), (2, "ready")]
    [(action, details)] = domain.rows("select action, details from app.audit")
    assert (action, details["flow_run_id"]) == ("flow-run.missing", str(flow.flow_run_id))


async def test_evidence_of_a_silent_loss_is_kept(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    time_passes(domain, 21)
    await sweep(domain, ScriptedPrefect({flow.flow_run_id: FlowState.COMPLETED}))
    assert domain.rows("select problem->>'code' from app.attempts where number = 1") == [("ended-without-outcome",)]


async def test_a_poison_request_is_parked_after_three_attempts_with_the_reason(domain: Domain) -> None:
    await submit(domain)
    for _ in range(3):
        flow = await started(domain)
        await flow.beat({"node_id": "fetch", "state": "running"})
        time_passes(domain, 21)
        done = await sweep(domain, ScriptedPrefect({flow.flow_run_id: FlowState.CRASHED}))
        assert done[Action.LOSE] == 1
    assert attempts(domain) == [(1, "fenced"), (2, "fenced"), (3, "fenced")]
    [(state, reason, message)] = domain.rows("select state, reason, problem->>'message' from app.runs")
    assert (state, reason) == ("failed", "parked")
    assert "3 attempts; the last one: its flow run crashed" in message
    assert domain.rows("select status, problem->>'code' from app.requests") == [("failed", "attempts-exhausted")]


async def test_sent_attempt_is_not_lost_under_a_pause(domain: Domain) -> None:
    prefect = ScriptedPrefect()
    await sent(domain, prefect, "pending")
    await call(domain, "operator", "POST", "/pause", {"reason": "because"})
    time_passes(domain, 5000)
    assert await sweep(domain, prefect) == {Action.LEAVE: 1}


async def test_a_run_whose_heartbeat_stops_is_tried_again_after_the_time_that_is_set(
    shared_database: TestDatabase, tmp_path: Path
) -> None:
    short: dict[str, Any] = {"heartbeat_seconds": 0.5, "attempt_lost_seconds": 3.0}
    async with running_domain(shared_database, tmp_path, **short) as domain:
        await submit(domain)
        flow = await started(domain)
        prefect = ScriptedPrefect({flow.flow_run_id: FlowState.RUNNING})
        patience = domain.service.settings.patience()
        assert (patience.suspect, patience.lost) == (2.0, 3.0)
        sweeping = asyncio.create_task(
            Reconciler(domain.service.database, prefect, 0.1, patience, 3, pause_seconds=0).run()
        )
        for _ in range(10):
            await asyncio.sleep(0.5)
            assert (await flow.beat()).json() == {"stop": False}, "it beats, however long it takes"
        await eventually(lambda: len(attempts(domain)) > 1)
        sweeping.cancel()
        assert attempts(domain) == [(1, "fenced"), (2, "ready")]
        silence = "select extract(epoch from finished_at - heartbeat_at)::float from app.attempts where number = 1"
        assert domain.rows(silence)[0][0] >= patience.lost, "not sooner"
        again = await started(domain)
        assert (await flow.commit()).status_code == 409
        assert (await again.commit()).is_success


async def test_relays_are_woken_once_for_many_commits(domain: Domain) -> None:
    async with outbox.listener(DatabaseAddress(domain.database.url("cairn_app"))) as connection:
        await submit(domain)
        for _ in range(100):
            domain.service.database.tell(AfterCommit(has_work=True))  # as each commit that leaves work does
        heard = [notice async for notice in connection.notifies(timeout=2, stop_after=3)]
    assert 1 <= len(heard) < 3


async def test_attempt_whose_worker_is_gone_is_found_behind_many_that_wait(domain: Domain) -> None:
    """A sweep looks at so many at a time."""
    prefect = ScriptedPrefect()
    for number in range(3):
        await sent(domain, prefect, "scheduled", refs={"dataset_id": "d", "resource_id": str(number)})
    time_passes(domain, 1000)
    flow = await sent(domain, prefect, "running", refs={"dataset_id": "d", "resource_id": "gone"})
    await flow.start()
    time_passes(domain, 200)
    async with domain.service.database.transaction() as session:
        looked_at = await Sweep(session).quiet(10, 2)
    assert flow.run_id in {suspect.run_id for suspect in looked_at}
