"""Fairness on the real database: who is sent in which order, what room is kept, and what a claim has to read for it."""

import json
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from domain.repositories import backlog, outbox
from domain.rules.fairness import URGENT, Turns
from domain.services.operations.audit import THE_SERVICE
from domain.services.runs.queueing import InternalRuns
from flows.pools import POOLS
from tests.support.acts import call, dispatched, submit
from tests.support.one_more_pool import GPU
from tests.support.platform import Domain

# As submissions leave them, but for what no dispatcher reads: many at once, and quickly.
WAITING = """
    with made as (
        insert into app.requests (request_id, platform_id, client_id, operation, submitted, fingerprint, priority)
        select gen_random_uuid(), %(platform)s, %(platform)s || '-dev', 'ingest', '{}', '', %(priority)s
        from generate_series(1, %(count)s) returning request_id
    ), runs as (
        insert into app.runs (
            run_id, request_id, sequence, workflow_id, version, digest, priority, pool, work_pool, inputs
        ) select request_id, request_id, 1, d.workflow_id, d.version, d.digest, %(priority)s, 'light',
            %(work_pool)s, '{}'
        from made, app.workflow_definitions d where d.workflow_id = 'raster_ingest' returning run_id
    )
    insert into app.attempts (run_id, number, token, pool, work_pool, priority, platform_id, workflow_id, created_at)
    select run_id, 1, run_id::text, 'light', %(work_pool)s, %(priority)s, %(platform)s, 'raster_ingest',
        clock_timestamp()
    from runs
"""
BEGUN = "update app.attempts set state = 'started', started_at = now() - interval '1 hour' where state = 'ready'"
AT_GDAL = """
    insert into app.run_nodes (run_id, node_id, position, type, pool, state)
    select run_id, 'make_cog', 1, 'task', 'gdal', 'dispatched' from app.attempts where state = 'started'
"""


def wait(domain: Domain, platform: str, count: int, priority: str = "normal", work_pool: str = "gdal") -> None:
    """So many runs of the platform wait to be sent."""
    values = {"platform": platform, "count": count, "priority": priority, "work_pool": work_pool}
    _do(domain, WAITING, values)


def _do(domain: Domain, statement: str, values: dict[str, Any] | None = None) -> None:
    with psycopg.connect(domain.database.url()) as connection:
        connection.execute(statement.encode(), values)


async def workers(domain: Domain, at_once: int | None = 4) -> None:
    """Both pools have a worker that does so many runs at once."""
    for pool in ("light", "gdal"):
        told = {"worker": "w"} | ({} if at_once is None else {"at_once": at_once})
        assert (await call(domain, "worker", "POST", f"/pools/{pool}/beacon", told)).status_code == 204


@dataclass
class Work:
    """A relay, and workers that do four runs at once in the order in which they were sent."""

    domain: Domain
    turns: Turns = field(default_factory=Turns)
    queue: deque[outbox.Dispatch] = field(default_factory=deque)
    ended: list[str | None] = field(default_factory=list)

    async def step(self) -> None:
        """Send all that may be sent, then end what four places take."""
        while (claimed := await outbox.claim_in_turn(self.domain.service.database, 10, 200, 60, self.turns)).dispatches:
            self.queue += claimed.dispatches
        done = [self.queue.popleft() for _ in range(min(4, len(self.queue)))]
        over = "update app.attempts set state = 'committed' where run_id = any(%(ids)s)"
        _do(self.domain, over, {"ids": [one.run_id for one in done]})
        self.ended += [one.platform_id for one in done]


async def test_five_of_one_platform_end_before_25_more_of_500_of_another(domain: Domain) -> None:
    await workers(domain)
    wait(domain, "ddh", 500)
    work = Work(domain)
    for _ in range(8):
        await work.step()
    before = work.ended.count("ddh")
    assert before == 32
    wait(domain, "arcgis", 5)
    while work.ended.count("arcgis") < 5:
        await work.step()
    assert work.ended.count("ddh") - before < 25


async def test_no_more_is_sent_to_prefect_than_workers_do_soon(domain: Domain) -> None:
    await workers(domain)
    wait(domain, "ddh", 100)
    assert len(await dispatched(domain)) == 16
    wait(domain, "arcgis", 100)
    assert len(await dispatched(domain)) == 2, "a place in eight is kept for others"
    wait(domain, "arcgis", 100, "high")
    assert len(await dispatched(domain)) == 2, "and for what is more urgent"
    claimed = await outbox.claim_in_turn(domain.service.database, 10, 200, 60, Turns())
    assert claimed == outbox.Claimed([], is_full=True)


async def test_workers_that_do_not_report_places_leave_the_pools_limit(domain: Domain) -> None:
    await workers(domain, at_once=None)
    wait(domain, "ddh", 100)
    assert len(await dispatched(domain)) == 100


async def test_a_pool_that_is_added_has_room_of_its_own(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    await workers(domain)
    wait(domain, "ddh", 100, work_pool=GPU.name)
    assert await dispatched(domain) == [], "nobody serves a pool that nobody knows"
    monkeypatch.setitem(POOLS._by_name, GPU.name, GPU)
    told = {"worker": "w", "at_once": 2}
    assert (await call(domain, "worker", "POST", f"/pools/{GPU.name}/beacon", told)).status_code == 204
    assert len(await dispatched(domain)) == 8, "of five times as many as are done at once, two places are kept"
    wait(domain, "arcgis", 100)
    assert len(await dispatched(domain)) == 10, "what needs another pool is not held up"


async def test_share_is_read_from_the_platforms_row(domain: Domain) -> None:
    body = {"platform_id": "arcgis", "share": 3, "priority_cap": "high"}
    assert (await call(domain, "operator", "POST", "/commands/platform.weigh", body)).json()["changed"] is True
    wait(domain, "ddh", 40)
    wait(domain, "arcgis", 40)
    claimed = await outbox.claim(domain.service.database, 20)
    assert Counter(one.platform_id for one in claimed) == {"arcgis": 15, "ddh": 5}
    row = (await call(domain, "reviewer", "GET", "/platforms/arcgis")).json()
    assert (row["share"], row["priority_cap"]) == (3, "high")
    assert domain.rows("select action, subject from app.audit") == [("platform.weigh", "platform/arcgis")]


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"platform_id": "nobody", "share": 2}, 404, "no platform"),
        ({"platform_id": "ddh", "share": 0}, 422, "share"),
        ({"platform_id": "ddh", "priority_cap": "urgent"}, 422, "priority_cap"),
    ],
)
async def test_impossible_share_is_refused(domain: Domain, body: Any, status: int, told: str) -> None:
    answer = await call(domain, "operator", "POST", "/commands/platform.weigh", body)
    assert (answer.status_code, told in answer.json()["detail"]) == (status, True)


async def test_a_priority_above_the_cap_is_lowered_and_the_answer_says_so(domain: Domain) -> None:
    asked = {"priority": "high"}
    answer = (await submit(domain, **asked)).json()
    assert answer["priority"] == "normal"
    again = await submit(domain, **asked)
    assert (again.status_code, again.json()["priority"]) == (200, "normal")
    kept = "select q.priority, r.priority, a.priority from app.requests q join app.runs r using (request_id)"
    assert domain.rows(f"{kept} join app.attempts a using (run_id)") == [("normal",) * 3]
    path = f"/requests/{answer['request_id']}/priority"
    assert (await call(domain, "operator", "POST", path, {"priority": "high"})).is_success, "an operator may"
    assert domain.rows(f"{kept} join app.attempts a using (run_id)") == [("high",) * 3]
    _do(domain, "update app.platforms set priority_cap = 'high'")
    other = {"dataset_id": "elevation", "resource_id": "slope"}
    assert (await submit(domain, refs=other, **asked)).json()["priority"] == "high"


async def withdrawal(domain: Domain) -> None:
    """The service orders that a copy be removed."""
    async with domain.service.database.transaction() as session:
        inputs = {"external_blob_path": "a/0-r1/b"}
        runs = InternalRuns(session, domain.service.definitions)
        await runs.queue("withdraw_external", inputs, THE_SERVICE, priority="high")


async def test_urgent_work_of_the_service_goes_before_every_partners(domain: Domain) -> None:
    await workers(domain)
    _do(domain, "update app.platforms set priority_cap = 'high'")
    for platform in ("ddh", "arcgis"):
        wait(domain, platform, 300, "high", work_pool="light")
    while await dispatched(domain):
        pass
    await withdrawal(domain)
    [first] = await dispatched(domain)
    assert domain.rows("select workflow_id, priority from app.attempts where run_id = %s", first.run_id) == [
        ("withdraw_external", URGENT)
    ]


async def test_200_parents_that_wait_for_gdal_hold_up_nothing_on_light(domain: Domain) -> None:
    await workers(domain)
    wait(domain, "ddh", 200)
    _do(domain, BEGUN)
    _do(domain, AT_GDAL)
    wait(domain, "ddh", 3, work_pool="light")
    wait(domain, "arcgis", 3, work_pool="light")
    wait(domain, "arcgis", 3)
    await withdrawal(domain)
    claimed = await outbox.claim(domain.service.database, 10)
    assert claimed[0].workflow_id == "withdraw_external"
    assert Counter(one.platform_id for one in claimed[1:]) == {"ddh": 3, "arcgis": 3}, "gdal's room is full"
    assert domain.rows("select count(*) from app.attempts where state = 'ready'") == [(3,)]


async def test_parent_whose_own_nodes_run_counts_as_at_work(domain: Domain) -> None:
    """The control: the same 200 with a node of their own at work leave no room beside them."""
    wait(domain, "ddh", 200)
    _do(domain, BEGUN)
    _do(domain, AT_GDAL)
    wait(domain, "arcgis", 3, work_pool="light")
    _do(domain, AT_GDAL.replace("'make_cog'", "'own'").replace("'gdal'", "'light'").replace("dispatched", "running"))
    assert await dispatched(domain) == []


async def test_run_claimed_but_not_sent_needs_no_room_again(domain: Domain) -> None:
    await workers(domain)
    wait(domain, "ddh", 100)
    first = await dispatched(domain)
    assert await dispatched(domain) == []
    _do(domain, "update app.attempts set lease_until = clock_timestamp() - interval '1 s' where state = 'sending'")
    assert {flow.run_id for flow in await dispatched(domain)} == {flow.run_id for flow in first}
    await call(domain, "operator", "POST", "/pause", {"platform_id": "ddh", "reason": "a test"})
    _do(domain, "update app.attempts set lease_until = clock_timestamp() - interval '1 s' where state = 'sending'")
    assert await dispatched(domain) == []


async def read(domain: Domain) -> int:
    """How many blocks a claim of ten reads: its lanes, what is in flight, and the taking, which is undone."""
    claims: list[tuple[Any, dict[str, Any]]] = [
        (backlog.WAITING, {"batch": 10}),
        (backlog.IN_FLIGHT, {"inline": ["light"], "soon": 30}),
        (backlog.TAKE, _lane() | {"wanted": [10], "lease": 60}),
        (backlog.TAKE_AGAIN, {"batch": 10, "lease": 60}),
    ]
    async with domain.service.database.engine.connect() as connection:
        await connection.execute(backlog.BY_INDEX)
        blocks = 0
        for statement, values in claims:
            asked = text(f"explain (analyze, buffers, format json) {statement.text}")
            plan = (await connection.execute(asked, values)).scalar_one()
            told = plan if isinstance(plan, list) else json.loads(plan)
            blocks += told[0]["Plan"]["Shared Hit Blocks"] + told[0]["Plan"]["Shared Read Blocks"]
        await connection.rollback()
    return blocks


def tidy(domain: Domain, *, analyze: bool = True) -> None:
    """What tests before this one left in the indexes is read once by whoever comes first: not by what is measured."""
    with psycopg.connect(domain.database.url(), autocommit=True) as connection:
        how = b"analyze" if analyze else b"analyze false"
        connection.execute(b"vacuum (" + how + b") app.attempts, app.runs, app.requests")


def _lane() -> dict[str, Any]:
    names = {"pools": "light", "work_pools": "gdal", "priorities": "normal", "platforms": "ddh"}
    return {name: [value] for name, value in (names | {"workflows": "raster_ingest"}).items()}


@pytest.mark.parametrize("known", ["statistics as they are", "statistics from before"])
async def test_a_claim_reads_no_more_where_fifty_times_as_many_wait(domain: Domain, known: str) -> None:
    """The planner may not know yet that many wait: it must not sort them then, either."""
    wait(domain, "ddh", 200)
    wait(domain, "arcgis", 50, "low")
    tidy(domain)
    before = await read(domain)
    wait(domain, "ddh", 10_000)
    tidy(domain, analyze=known == "statistics as they are")
    after = await read(domain)
    assert after <= 1.5 * before, (before, after)
