"""What is over is disposed of by many at a time, and what does not end keeps no other from its turn."""

from uuid import UUID

import pytest
from sqlalchemy import event

from domain.loops.reconciler import Reconciler
from domain.rules.reconcile import Action, FlowState, Patience
from tests.support.acts import submit
from tests.support.platform import Domain
from tests.support.scripted_prefect import ScriptedPrefect, sweep


async def test_flow_runs_that_do_not_end_keep_no_other_from_being_disposed_of(domain: Domain) -> None:
    """Of more than a sweep looks at together the oldest run on in Prefect: those behind them are disposed of."""
    prefect = ScriptedPrefect()
    ended = await many_ended(domain, 12)
    prefect.flows = dict.fromkeys(ended[:5], FlowState.RUNNING)
    reconciler = Reconciler(domain.service.database, prefect, 60, Patience(), max_attempts=3, page=2)
    assert await reconciler.sweep() == {Action.LEAVE: 5, Action.DISPOSE: 7}
    assert left_of(domain) == ended[:5]
    prefect.flows.clear()
    assert await reconciler.sweep() == {Action.DISPOSE: 5}
    assert left_of(domain) == []


async def test_a_sweep_that_cannot_look_at_all_goes_on_behind(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domain.loops.reconciler.MOST_PAGES", 1)
    prefect = ScriptedPrefect()
    ended = await many_ended(domain, 5)
    prefect.flows = dict.fromkeys(ended[:2], FlowState.RUNNING)
    reconciler = Reconciler(domain.service.database, prefect, 60, Patience(), max_attempts=3, page=2)
    swept = [await reconciler.sweep() for _ in range(3)]
    assert swept == [{Action.LEAVE: 2}, {Action.DISPOSE: 2}, {Action.DISPOSE: 1}]
    assert left_of(domain) == ended[:2]


async def test_number_of_transactions_of_disposing_does_not_grow_with_its_flow_runs(domain: Domain) -> None:
    """One by one, a whole fleet disposed of thirteen a second."""
    await many_ended(domain, 300)
    asked: list[str] = []
    engine = domain.service.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", lambda _c, _cursor, said, *_: asked.append(said))
    assert await sweep(domain, ScriptedPrefect()) == {Action.DISPOSE: 300}
    assert sum("disposed_at = clock_timestamp()" in said for said in asked) == 1
    assert len(asked) < 20


async def many_ended(domain: Domain, count: int) -> list[UUID]:
    """Flow runs of so many attempts that were committed ten minutes ago, one a second, the oldest first."""
    await submit(domain)
    domain.rows("update app.attempts set state = 'committed', disposed_at = now() returning 1")
    rows = domain.rows(
        "with runs as (insert into app.runs (run_id, request_id, sequence, workflow_id, version, digest, priority,"
        " inputs, state) select gen_random_uuid(), request_id, n + 1, workflow_id, version, digest, 'normal', '{}',"
        " 'completed' from app.runs, generate_series(1, %s) n returning run_id, sequence)"
        " insert into app.attempts (run_id, number, token, state, flow_run_id, finished_at)"
        " select run_id, 1, run_id::text, 'committed', run_id, now() - interval '10 min' + sequence * interval '1 s'"
        " from runs returning flow_run_id, finished_at", count,
    )  # fmt: skip
    return [flow_run_id for flow_run_id, _ in sorted(rows, key=lambda row: row[1])]


def left_of(domain: Domain) -> list[UUID]:
    rows = domain.rows("select flow_run_id from app.attempts where disposed_at is null order by finished_at")
    return [flow_run_id for (flow_run_id,) in rows]
