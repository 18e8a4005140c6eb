"""The order in which rows are locked: what watches it in every test of the domain, and races that it decides."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from tests.support.acts import Flow, call, dispatched, submit
from tests.support.clock import eventually
from tests.support.cluster import TestDatabase
from tests.support.lock_order import LockOrder, fault, locks
from tests.support.platform import Domain, running_domain

REPOSITORY = Path(__file__).resolve().parents[2]
FORKED = """
plan_id: forked
version: 1
accepts: {data_type: [raster], operation: [forked]}
inputs: {source: {type: string, required: true}}
steps:
  - {id: one, workflow: echo_test}
  - {id: two, workflow: echo_test}
  - {id: after_two, workflow: echo_test, depends_on: two}
"""
WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("SELECT app.runs.run_id FROM app.runs WHERE app.runs.run_id = 1 FOR UPDATE", "runs"),
        ("SELECT a FROM app.requests JOIN app.runs ON x FOR NO KEY UPDATE OF requests", "requests"),
        ("update app.attempts a set heartbeat_at = now() from app.runs r", "attempts"),
        ("with due as (select from app.attempts for update of a skip locked) update app.attempts", None),
        ("select run_id from app.runs", None),
        ("insert into app.events values (1)", None),
    ],
)
def test_locked_table_is_read_from_a_statement(statement: str, table: str | None) -> None:
    assert locks(statement) == table


@pytest.mark.parametrize(
    ("held", "table", "wrong"),
    [
        (set(), "runs", "runs without their request"),
        ({"runs"}, "requests", "requests after runs"),
        ({"requests", "runs", "attempts"}, "assets", "assets after attempts, requests, runs"),
        ({"assets", "requests"}, "runs", None),
        ({"requests", "runs", "attempts"}, "runs", None),
        (set(), "attempts", None),
        ({"attempts"}, "events", None),
    ],
)
def test_lock_out_of_order_is_a_fault(held: set[str], table: str, wrong: str | None) -> None:
    assert fault(held, table) == wrong


async def test_transaction_that_locks_out_of_order_is_found(domain: Domain, lock_order: LockOrder) -> None:
    assert (await submit(domain)).status_code == 202
    async with domain.service.database.transaction() as session:
        await session.execute(text("select run_id from app.runs for update"))
        await session.execute(text("select request_id from app.requests for update"))
    assert [wrong.partition(":")[0] for wrong in lock_order.faults] == [
        "runs without their request",
        "requests after runs",
    ]
    lock_order.faults.clear()


@pytest.fixture
async def forked(shared_database: TestDatabase, tmp_path: Path) -> AsyncIterator[Domain]:
    folder = tmp_path / "workflows"
    shutil.copytree(REPOSITORY / "workflows", folder)
    (folder / "plans" / "forked.yaml").write_text(FORKED)
    async with running_domain(shared_database, tmp_path, workflows_dir=folder, quota_cache_seconds=0) as running:
        yield running


async def begun(domain: Domain) -> tuple[Flow, Flow]:
    """Two steps side by side, at work; a third waits for the second of them."""
    assert (await submit(domain, operation="forked")).status_code == 202
    one, two = await dispatched(domain)
    assert (await one.start()).is_success
    assert (await two.start()).is_success
    return one, two


@pytest.mark.parametrize("ends", ["fail", "cancelled"])
async def test_commit_of_a_step_and_failure_of_another_do_not_deadlock(forked: Domain, ends: str) -> None:
    """The commit queues what comes next, the end cancels it: each once held what the other one wanted."""
    one, two = await begun(forked)
    with psycopg.connect(forked.database.url()) as other:
        other.execute("select request_id from app.requests for no key update")
        committing = asyncio.create_task(two.commit({}))
        await eventually(lambda: forked.rows(WAITING) == [(1,)])
        ending = asyncio.create_task(one.fail() if ends == "fail" else one.fail("cancelled"))
        await eventually(lambda: forked.rows(WAITING) == [(2,)])
    answers = [await committing, await ending]
    assert [answer.status_code for answer in answers] == [200, 200], [answer.text for answer in answers]
    assert forked.rows("select status from app.requests") == [("failed" if ends == "fail" else "cancelled",)]


async def test_steps_cancelled_together_in_prefect_do_not_deadlock(forked: Domain) -> None:
    """An operator who marks all flow runs in Prefect's list and cancels them has each of them cancel the request."""
    one, two = await begun(forked)
    with psycopg.connect(forked.database.url()) as other:
        other.execute("select request_id from app.requests for no key update")
        ending = [asyncio.create_task(flow.fail("cancelled")) for flow in (two, one)]
        await eventually(lambda: forked.rows(WAITING) == [(2,)])
    answers = [await one_of for one_of in ending]
    # Whoever comes second finds that its attempt is over.
    assert sorted(answer.status_code for answer in answers) == [200, 409], [answer.text for answer in answers]
    assert forked.rows("select status from app.requests") == [("cancelled",)]
    assert (await call(forked, "operator", "GET", "/requests")).is_success
