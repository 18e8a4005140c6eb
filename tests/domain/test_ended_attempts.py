"""The sweep and attempts that are over: their flow runs are stopped, children too, and then forgotten."""

from uuid import uuid4

import psycopg

from domain.rules.reconcile import Action, FlowState
from tests.support.acts import Flow, call, started, submit, time_passes
from tests.support.platform import Domain
from tests.support.scripted_prefect import ScriptedPrefect, sweep


async def test_flow_runs_of_fenced_attempts_are_stopped_children_too_and_then_forgotten(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    child = Flow(domain, flow.run_id, flow.token)
    await child.start(segment=1)
    await call(domain, "operator", "POST", f"/runs/{flow.run_id}/cancel", {"reason": "because"})
    prefect = ScriptedPrefect({flow.flow_run_id: FlowState.CANCELLED, child.flow_run_id: FlowState.RUNNING})
    time_passes(domain, 31)
    assert await sweep(domain, prefect) == {Action.STOP_FLOW: 1}
    assert prefect.stopped == [child.flow_run_id]
    prefect.flows[child.flow_run_id] = FlowState.CANCELLED
    assert await sweep(domain, prefect) == {Action.DISPOSE: 1}
    assert await sweep(domain, prefect) == {}


async def test_an_attempt_is_forgotten_once_nothing_is_left_inside_its_flow_runs(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    time_passes(domain, 21)
    prefect = ScriptedPrefect({flow.flow_run_id: FlowState.CRASHED}, inside={flow.flow_run_id}, silent=True)
    assert await sweep(domain, prefect) == {Action.LOSE: 1}
    time_passes(domain, 31)
    assert await sweep(domain, prefect) == {Action.LEAVE: 1}
    prefect.silent = False
    assert await sweep(domain, prefect) == {Action.DISPOSE: 1}
    assert prefect.inside == set()


async def test_a_flow_run_that_works_for_a_newer_attempt_is_not_stopped(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    await flow.fail()
    await flow.start(run_count=2)
    time_passes(domain, 5000)
    prefect = ScriptedPrefect({flow.flow_run_id: FlowState.RUNNING})
    with psycopg.connect(domain.database.url()) as connection:
        connection.execute("update app.attempts set heartbeat_at = now() where state = 'started'")
    assert await sweep(domain, prefect) == {}
    assert prefect.stopped == []


async def test_a_flow_run_that_nobody_is_left_to_stop_is_ended_and_its_attempt_forgotten(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    await call(domain, "operator", "POST", f"/runs/{flow.run_id}/cancel", {"reason": "because"})
    prefect = ScriptedPrefect({flow.flow_run_id: FlowState.CANCELLING})
    time_passes(domain, 31)
    assert await sweep(domain, prefect) == {Action.LEAVE: 1}
    prefect.flows[flow.flow_run_id] = FlowState.OVERSTAYING
    assert await sweep(domain, prefect) == {Action.STOP_FLOW: 1}
    assert prefect.stopped == [flow.flow_run_id]
    prefect.flows[flow.flow_run_id] = FlowState.CANCELLED
    assert await sweep(domain, prefect) == {Action.DISPOSE: 1}


async def test_a_flow_run_that_an_operator_cancelled_and_whose_process_is_gone_cancels_its_request(
    domain: Domain,
) -> None:
    """It must not be tried again, be it that nobody was left who would have told of the order."""
    await submit(domain)
    flow = await started(domain)
    time_passes(domain, 95)
    prefect = ScriptedPrefect({flow.flow_run_id: FlowState.OVERSTAYING})
    assert await sweep(domain, prefect) == {Action.CANCEL: 1}
    assert domain.rows("select status from app.requests") == [("cancelled",)]


async def test_child_runs_that_died_before_they_began_are_ended_once_their_attempt_is_over(domain: Domain) -> None:
    """Prefect keeps a slot of their pool for each; after four of them nothing more would begin on a small pool."""
    await submit(domain)
    flow = await started(domain)
    died, begun, strange = uuid4(), Flow(domain, flow.run_id, flow.token), uuid4()
    await begun.start(segment=1)
    children = {died: flow.token, begun.flow_run_id: flow.token, strange: "another installation's"}
    prefect = ScriptedPrefect({flow.flow_run_id: FlowState.RUNNING, begun.flow_run_id: FlowState.RUNNING})
    prefect.children = dict(children)
    await sweep(domain, prefect)
    assert prefect.children == children, "its parent still waits for it"
    await flow.fail()
    await sweep(domain, prefect)
    assert prefect.children == children, "one that begins just now is told by us"
    time_passes(domain, 31)
    await sweep(domain, prefect)
    assert prefect.children == {one: token for one, token in children.items() if one != died}
