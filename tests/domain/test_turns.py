"""Submissions about the same, while the first of them hangs: a short wait, its answer or its id; nobody else waits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from domain.repositories.intake import Accepted, FirstRun, Intake
from domain.rules import identity
from tests.support.acts import submit
from tests.support.clock import eventually
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, another_domain, running_domain, submission

SHORT: dict[str, Any] = {"submission_wait_seconds": 0.5, "pool_size": 3}
LONG: dict[str, Any] = {"submission_wait_seconds": 20.0, "pool_size": 3}
OTHER = {"dataset_id": "elevation", "resource_id": "another"}
SESSIONS = """
    select distinct application_name from pg_stat_activity
    where datname = current_database() and application_name like 'cairn-domain%%'
"""
WAITING = "select count(*) from pg_locks where not granted and locktype in ('transactionid', 'tuple')"


@asynccontextmanager
async def hanging(domain: Domain, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> AsyncIterator[tuple[str, Any]]:
    """The id of a submission that hangs with all its locks, and its call, which ends once `release` is set."""
    write, begun, release = Intake.write, asyncio.Event(), asyncio.Event()
    first = submission(**changes)

    async def slow(self: Intake, accepted: Accepted, run: FirstRun | None) -> bool:
        if str(accepted.submission.request_id) == first["request_id"]:
            begun.set()
            await release.wait()
        return await write(self, accepted, run)

    monkeypatch.setattr(Intake, "write", slow)
    call = asyncio.create_task(submit(domain, **first))
    await begun.wait()
    try:
        yield first["request_id"], release
    finally:
        release.set()
        assert (await call).status_code == 202


def refused(answer: httpx.Response) -> Any:
    assert (answer.status_code, answer.headers["retry-after"]) == (409, "1"), answer.text
    assert answer.json()["code"] == "submission-under-way"
    return answer.json().get("request_id")


@pytest.mark.parametrize("what", ["asset", "key"])
async def test_submission_that_waits_too_long_for_a_lock_is_told_to_retry(
    shared_database: TestDatabase, tmp_path: Path, what: str
) -> None:
    asset_id = identity.asset_id("ddh", submission()["refs"])
    async with running_domain(shared_database, tmp_path, **SHORT) as domain:
        with psycopg.connect(shared_database.url()) as connection:
            if what == "asset":
                made = (
                    "insert into app.assets (asset_id, platform_id, refs, data_type) values (%s, 'ddh', '{}', 'raster')"
                )
                connection.execute(made.encode(), [asset_id])
            else:
                connection.execute("select pg_advisory_xact_lock(hashtextextended('ddh one', 0))")
            assert refused(await submit(domain, idempotency_key="one")) is None, "nobody knows whose it is"
            connection.rollback()
        assert (await submit(domain, idempotency_key="one")).status_code == 202


async def test_duplicate_of_a_hanging_submission_learns_its_id(
    shared_database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_domain(shared_database, tmp_path, **SHORT) as domain:
        async with hanging(domain, monkeypatch, idempotency_key="one") as (first, _):
            answers = await asyncio.gather(
                submit(domain, idempotency_key="one"), submit(domain), submit(domain, idempotency_key="one", refs=OTHER)
            )
            assert {refused(answer) for answer in answers} == {first}
        again = await submit(domain, idempotency_key="one")
        assert (again.status_code, again.json()["request_id"]) == (200, first)


@pytest.mark.parametrize(
    "request_id",
    [
        "00000000-0000-0000-0000-000000000000",
        "7fffffff-8000-4000-8000-0000ffffffff",
        "80000001-0000-4000-ffff-ffff00000001",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ],
)
async def test_duplicate_at_another_process_learns_the_id_of_a_hanging_submission(
    shared_database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_id: str
) -> None:
    async with (
        running_domain(shared_database, tmp_path, **SHORT) as domain,
        another_domain(shared_database, tmp_path, **SHORT) as other,
        hanging(domain, monkeypatch, idempotency_key="one", request_id=request_id) as (first, _),
        hanging(domain, monkeypatch, refs=OTHER, idempotency_key="another"),
    ):
        assert first == request_id
        assert refused(await submit(other)) == first, "by its asset"
        assert refused(await submit(other, idempotency_key="one", refs=OTHER)) == first, "by its key"
        assert domain.rows(SESSIONS) == [("cairn-domain",)], "sessions are called by their service, not by requests"


async def test_id_of_a_submission_waiting_for_a_decision_is_not_given_to_duplicates(
    shared_database: TestDatabase, tmp_path: Path
) -> None:
    """It has the turn, and may be found to be a duplicate itself: its id may never be anybody's."""
    asset_id = identity.asset_id("ddh", submission()["refs"])
    async with (
        running_domain(shared_database, tmp_path, **LONG) as domain,
        another_domain(shared_database, tmp_path, **SHORT) as other,
    ):
        assert (await submit(domain)).status_code == 202
        with psycopg.connect(shared_database.url()) as connection:
            connection.execute("select from app.assets where asset_id = %s for update", [asset_id])
            first = asyncio.create_task(submit(domain, version_label="2"))
            await eventually(lambda: domain.rows(WAITING) == [(1,)])
            assert refused(await submit(other, version_label="3")) is None
            connection.rollback()
        assert (await first).status_code == 409, "blocked by the version that waits for its review"


async def test_waiting_duplicates_hold_no_connection_and_get_the_first_answer(
    shared_database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_domain(shared_database, tmp_path, **LONG) as domain:
        async with hanging(domain, monkeypatch) as (first, release):
            waiting = [asyncio.create_task(submit(domain)) for _ in range(30)]
            await asyncio.sleep(0.3)
            assert (await submit(domain, refs=OTHER)).status_code == 202, "nobody else waits"
            assert not any(call.done() for call in waiting)
            release.set()
            answers = await asyncio.gather(*waiting)
        assert {(answer.status_code, answer.json()["request_id"]) for answer in answers} == {(200, first)}


async def test_submission_behind_one_that_gave_up_is_next(shared_database: TestDatabase, tmp_path: Path) -> None:
    async with running_domain(shared_database, tmp_path, submission_wait_seconds=3.0) as domain:
        with psycopg.connect(shared_database.url()) as connection:
            connection.execute("select pg_advisory_xact_lock(hashtextextended('ddh one', 0))")
            early = asyncio.create_task(submit(domain, idempotency_key="one"))
            await asyncio.sleep(2)
            late = asyncio.create_task(submit(domain, idempotency_key="one"))
            refused(await early)
            connection.rollback()
        assert (await late).status_code == 202


async def test_malformed_submission_names_each_fault_once(shared_database: TestDatabase, tmp_path: Path) -> None:
    async with running_domain(shared_database, tmp_path) as domain:
        answer = await submit(domain, priority="urgent")
        assert (answer.status_code, len(answer.json()["faults"])) == (422, 1)
        assert answer.json()["faults"][0].startswith("priority: ")
