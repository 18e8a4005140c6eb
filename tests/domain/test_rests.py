"""Between attempts a run rests; one that a worker of another release refused awaits one that has its handlers."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from domain.rules.routing import PoolNotice
from domain.services.runs.wording import AGAIN_SECONDS
from flows.handlers.registry import registry
from tests.domain.test_routing import look, stands
from tests.support.acts import Flow, call, dispatched, started, submit, time_passes
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, running_domain

MISSING = {"code": "handler-missing", "message": "This worker's image has no handler raster.validate."}
ATTEMPTS = "select number, state from app.attempts order by 1"


@pytest.fixture
async def domain(shared_database: TestDatabase, tmp_path: Path) -> AsyncIterator[Domain]:
    """The domain as it is set up by default, once it has listened long enough to have heard every worker."""
    async with running_domain(shared_database, tmp_path, attempt_pause_seconds=10) as running:
        time_passes(running, 25)
        yield running


async def beacon(domain: Domain, worker: str, *pools: str, **said: Any) -> None:
    for pool in pools:
        answer = await call(domain, "worker", "POST", f"/pools/{pool}/beacon", {"worker": worker} | said)
        assert answer.status_code == 204, answer.text


def handlers(*without: str) -> list[str]:
    return sorted(set(registry()) - set(without))


async def refused(domain: Domain) -> Flow:
    """A run whose first attempt a worker of an older release has refused."""
    await submit(domain)
    flow = await started(domain)
    assert (await flow.fail("lost", **MISSING)).json()["state"] == "pending"
    return flow


async def test_a_run_rests_before_it_is_tried_again_and_longer_each_time(domain: Domain) -> None:
    await submit(domain)
    for shortest, longest in ((5, 15), (20, 60)):
        flow = await started(domain)
        assert (await flow.fail("lost", code="child-run-lost")).json()["state"] == "pending"
        assert await dispatched(domain) == [], "it is not sent at once"
        time_passes(domain, shortest - 1)
        assert await dispatched(domain) == []
        time_passes(domain, longest - shortest + 1)
    assert (await (await started(domain)).commit()).is_success


async def test_handed_over_run_goes_on_without_a_rest(domain: Domain) -> None:
    """The control: a worker that drains is no reason to rest."""
    await submit(domain)
    await (await started(domain)).fail("handed-over")
    assert (await (await started(domain)).commit()).is_success


async def test_a_run_whose_handlers_no_worker_has_is_not_sent_until_one_has_them(domain: Domain) -> None:
    await refused(domain)
    time_passes(domain, 20)
    await beacon(domain, "old", "light", "gdal", handlers=handlers("raster.validate"))
    assert await look(domain).look() == {PoolNotice.MARK: 1}
    assert stands(domain) == ("pending", "unroutable", "gdal")
    assert await dispatched(domain) == [], "old workers are there, and would refuse it"
    await beacon(domain, "new", "light", "gdal", handlers=handlers())
    assert await look(domain).look() == {PoolNotice.RELEASE: 1}
    assert stands(domain) == ("pending", None, None)
    assert (await (await started(domain)).commit()).is_success


async def test_run_with_missing_handlers_is_not_sent_to_workers_that_list_none(domain: Domain) -> None:
    await refused(domain)
    time_passes(domain, 20)
    await beacon(domain, "silent", "light", "gdal")
    assert await look(domain).look() == {PoolNotice.MARK: 1}
    assert await look(domain).look() == {}


async def test_run_with_missing_handlers_is_sent_where_only_prefect_knows_of_workers(domain: Domain) -> None:
    """Those that start containers send no beacons: what their images have, nobody says."""
    await refused(domain)
    time_passes(domain, 20)

    async def online(pool: str) -> frozenset[str]:
        return frozenset({"containers"})

    assert await look(domain, online).look() == {PoolNotice.MARK: 1}, (
        "of its two pools one is asked about after the other"
    )
    assert await look(domain, online).look() == {PoolNotice.RELEASE: 1}
    assert len(await dispatched(domain)) == 1


async def test_refusals_by_old_workers_never_park_a_run(domain: Domain) -> None:
    """Prefect gives a run to whichever worker asks. Of four refusals none is a try."""
    await submit(domain)
    for _ in range(4):
        await (await started(domain)).fail("lost", **MISSING)
        time_passes(domain, 450)
        await beacon(domain, "new", "light", "gdal", handlers=handlers())
        assert await look(domain).look() == {PoolNotice.RELEASE: 1}
    assert (await (await started(domain)).commit()).is_success
    assert domain.rows("select state, hand_overs from app.runs") == [("completed", 4)]
    assert [state for _, state in domain.rows(ATTEMPTS)] == ["failed"] * 4 + ["committed"]


async def test_run_whose_handlers_stay_missing_is_given_up_with_the_reason(domain: Domain) -> None:
    await refused(domain)
    for seconds in (20, 601):
        time_passes(domain, seconds)
        await beacon(domain, "old", "light", "gdal", handlers=handlers("raster.validate"))
        await look(domain).look()
    assert stands(domain) == ("failed", "unroutable", None)
    [(code, message)] = domain.rows("select problem->>'code', problem->>'message' from app.runs")
    assert code == "handler-missing"
    assert "raster.validate" in message
    assert "Start workers of the release that published the workflow" in message
    assert await dispatched(domain) == []


async def test_partner_is_told_to_retry_after_an_outage_of_ours(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    told = {"code": "platform-outage", "message": "A disk cannot be used: ENOSPC. /srv"}
    await flow.fail("failed", **told)
    [(problem,)] = domain.rows("select problem from app.requests")
    expected = (503, "platform-outage", AGAIN_SECONDS)
    assert (problem["status"], problem["code"], problem["retry_after_seconds"]) == expected
    assert "Submit it again later" in problem["detail"]
    assert "ENOSPC" not in str(problem)
