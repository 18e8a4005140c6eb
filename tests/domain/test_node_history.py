"""Every change of a node's state is kept, whatever attempts come after, in as many rows as there were changes."""

from typing import Any
from uuid import UUID

from sqlalchemy import event
from sqlalchemy.engine import Engine

from domain.loops.node_history import NodeHistorySweep
from tests.support.acts import Flow, call, dispatched, started, submit, time_passes
from tests.support.platform import Domain

KEPT = "select node_id, attempt, before, state, tries, retries from app.node_transitions order by transition_id"
FAULT = {"code": "handler-failed", "message": "It blew up."}


async def running(domain: Domain) -> Flow:
    assert (await submit(domain)).status_code == 202
    return await started(domain)


def told(node_id: str, state: str, **more: Any) -> dict[str, Any]:
    return {"node_id": node_id, "state": state, **more}


async def timeline(domain: Domain, run_id: UUID) -> list[dict[str, Any]]:
    [(request_id,)] = domain.rows("select request_id from app.runs where run_id = %s", run_id)
    entries: list[dict[str, Any]] = (await call(domain, "operator", "GET", f"/requests/{request_id}/timeline")).json()[
        "entries"
    ]
    return entries


async def test_each_change_of_state_and_each_further_try_is_kept_once(domain: Domain) -> None:
    flow = await running(domain)
    await flow.beat(told("validate", "dispatched", pool="gdal"))
    await flow.beat(told("validate", "running", tries=1), told("validate", "running", fraction=0.5, message="half"))
    await flow.beat(told("validate", "running", fraction=0.9))
    await flow.beat(told("validate", "ready", tries=1, problem=FAULT), told("validate", "running", tries=2))
    await flow.beat(told("validate", "completed", tries=2))
    assert domain.rows(KEPT) == [
        ("validate", 1, "pending", "dispatched", 0, 0),
        ("validate", 1, "dispatched", "running", 1, 0),
        ("validate", 1, "running", "ready", 1, 0),
        ("validate", 1, "ready", "running", 2, 1),
        ("validate", 1, "running", "completed", 2, 0),
    ]
    shown = "select state, tries, fraction, message, problem, started_at < finished_at from app.run_nodes"
    assert domain.rows(f"{shown} where node_id = 'validate'") == [("completed", 2, 0.9, "half", None, True)]
    kinds = [entry["kind"] for entry in await timeline(domain, flow.run_id) if entry["kind"].startswith("node.")]
    assert kinds == ["node.dispatched", "node.running", "node.ready", "node.running", "node.completed"]


async def test_history_of_a_lost_attempt_stays_beside_the_next_ones(domain: Domain) -> None:
    flow = await running(domain)
    await flow.beat(told("fetch", "running", tries=1), told("fetch", "completed", tries=1))
    await flow.beat(told("validate", "running", tries=1))
    await flow.fail("lost", code="child-run-lost")
    assert (await call(domain, "operator", "GET", f"/runs/{flow.run_id}")).json()["reason"] == "retrying"
    time_passes(domain, 100)
    [again] = await dispatched(domain)
    assert (await again.start()).status_code == 200
    assert (await call(domain, "operator", "GET", f"/runs/{flow.run_id}")).json()["reason"] is None
    await again.beat(told("validate", "running", tries=1), told("validate", "failed", tries=1, problem=FAULT))
    assert [row[:4] for row in domain.rows(KEPT)] == [
        ("fetch", 1, "pending", "running"),
        ("fetch", 1, "running", "completed"),
        ("validate", 1, "pending", "running"),
        ("validate", 1, "running", "pending"),
        ("validate", 2, "pending", "running"),
        ("validate", 2, "running", "failed"),
    ]


async def test_fan_out_of_many_items_is_kept_in_as_many_rows_as_a_task(domain: Domain) -> None:
    flow = await running(domain)
    total = 1000
    for done in range(0, total, 100):
        counts = {"items_total": total, "items_done": done, "items_failed": 3, "items_retried": done // 10}
        await flow.beat(told("tiles", "running", **counts))
    await flow.beat(told("tiles", "running", items_done=997), told("tiles", "completed"))
    rows = domain.rows("select state, items, retries from app.node_transitions where node_id = 'tiles' order by 1 desc")
    counted = {"total": 1000, "done": 997, "failed": 3, "retried": 90}
    assert rows == [("running", None, 0), ("completed", counted, 90)]


async def test_rerun_of_everything_keeps_what_was_before(domain: Domain) -> None:
    flow = await running(domain)
    await flow.beat(told("validate", "running", tries=1), told("validate", "failed", tries=1))
    await flow.fail()
    again = {"scope": "all", "definition": "pinned"}
    assert (await call(domain, "operator", "POST", f"/runs/{flow.run_id}/rerun", again)).status_code == 202
    assert [row[:4] for row in domain.rows(KEPT)] == [
        ("validate", 1, "pending", "running"),
        ("validate", 1, "running", "failed"),
        ("validate", 1, "failed", "pending"),
    ]


async def test_heartbeat_with_many_nodes_is_one_statement_more(domain: Domain) -> None:
    """However many nodes it tells of, and whatever is kept of them."""
    flow = await running(domain)
    nodes = [name for (name,) in domain.rows("select node_id from app.run_nodes")]
    counts = []
    for events in ([], [told("validate", "running", tries=1)], [told(name, "completed") for name in nodes]):
        seen: list[str] = []
        note = lambda *seen_of, seen=seen: seen.append(seen_of[2])  # noqa: E731
        event.listen(Engine, "before_cursor_execute", note)
        try:
            assert (await flow.beat(*events)).status_code == 200
        finally:
            event.remove(Engine, "before_cursor_execute", note)
        counts.append(len([each for each in seen if "app." in each and "listening" not in each]))
    assert counts[1] == counts[2] == counts[0] + 1


async def test_history_is_forgotten_after_its_time_and_timelines_still_tell_how_nodes_ended(domain: Domain) -> None:
    flow = await running(domain)
    await flow.beat(told("validate", "running", tries=1), told("validate", "completed", tries=1))
    sweep = NodeHistorySweep(domain.service.database, kept_seconds=3600)
    assert await sweep.sweep() == 0
    domain.rows("update app.node_transitions set at = at - interval '2 hours' where state = 'running' returning 1")
    assert await sweep.sweep() == 1
    assert [row[3] for row in domain.rows(KEPT)] == ["completed"]
    domain.rows("update app.node_transitions set at = at - interval '2 hours' returning 1")
    assert await sweep.sweep() == 1
    kinds = [entry["kind"] for entry in await timeline(domain, flow.run_id)]
    assert kinds.count("node.completed") == 1
