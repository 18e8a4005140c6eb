"""Beacons, and runs that wait for a pool that nobody serves: said, taken back, given up."""

from dataclasses import dataclass, field

import psycopg
import pytest

from domain.loops.unserved_pools import Online, UnservedPoolSweep
from domain.repositories import outbox
from domain.rules.routing import PoolNotice
from tests.support.acts import Flow, call, dispatched, started, submit, time_passes
from tests.support.platform import Domain


@pytest.fixture
async def domain(domain: Domain) -> Domain:
    """The domain, once it has listened long enough to have heard every worker."""
    time_passes(domain, 25)
    return domain


def look(domain: Domain, online: Online | None = None) -> UnservedPoolSweep:
    return UnservedPoolSweep(domain.service.database, 5, 25, 600, online)


async def beacon(domain: Domain, pool: str, worker: str = "w1") -> None:
    answer = await call(domain, "worker", "POST", f"/pools/{pool}/beacon", {"worker": worker})
    assert answer.status_code == 204, answer.text


async def sent(domain: Domain) -> Flow:
    """An attempt that was sent and that no worker has taken."""
    await submit(domain)
    [flow] = await dispatched(domain)
    await outbox.link(domain.service.database, flow.run_id, 1, flow.flow_run_id)
    return flow


def stands(domain: Domain) -> tuple[object, ...]:
    [row] = domain.rows("select state, reason, unroutable_pool from app.runs")
    return row


async def record(domain: Domain, flow: Flow) -> dict[str, object]:
    shown: dict[str, object] = (await call(domain, "reviewer", "GET", f"/runs/{flow.run_id}")).json()
    return shown


async def test_sent_run_without_a_worker_is_marked_unroutable_until_one_comes(domain: Domain) -> None:
    flow = await sent(domain)
    await beacon(domain, "gdal")
    assert await look(domain).look() == {PoolNotice.MARK: 1}
    assert await look(domain).look() == {}, "said once"
    shown = await record(domain, flow)
    assert (shown["reason"], shown["unroutable_pool"]) == ("unroutable", "light")
    await beacon(domain, "light")
    assert await look(domain).look() == {PoolNotice.CLEAR: 1}
    assert stands(domain) == ("pending", None, None)
    told = domain.rows("select kind, details->>'pool' from app.events where kind like 'run.%%routable' order by at")
    assert told == [("run.unroutable", "light"), ("run.routable", "light")]


async def test_mark_unroutable_is_cleared_when_the_run_begins(domain: Domain) -> None:
    flow = await sent(domain)
    await look(domain).look()
    assert (await flow.start()).is_success
    assert stands(domain) == ("running", None, None)
    assert await look(domain).look() == {}


async def test_segment_waiting_for_an_unserved_pool_marks_its_run_until_it_runs(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    await beacon(domain, "light")
    await flow.beat({"node_id": "make_cog", "state": "dispatched", "pool": "gdal"})
    assert await look(domain).look() == {PoolNotice.MARK: 1}
    assert stands(domain) == ("running", "unroutable", "gdal")
    await flow.beat({"node_id": "make_cog", "state": "running"})
    assert await look(domain).look() == {PoolNotice.CLEAR: 1}
    assert (await flow.commit()).is_success


async def test_run_that_no_worker_ever_takes_fails_and_may_be_rerun(domain: Domain) -> None:
    flow = await sent(domain)
    await look(domain).look()
    time_passes(domain, 599)
    assert await look(domain).look() == {}
    time_passes(domain, 2)
    assert await look(domain).look() == {PoolNotice.FAIL: 1}
    assert stands(domain) == ("failed", "unroutable", None)
    [(code, message)] = domain.rows("select problem->>'code', problem->>'message' from app.runs")
    assert code == "unroutable"
    assert message.startswith("No worker has served the pool light for 60")
    assert domain.rows("select status from app.requests") == [("failed",)]
    assert (await flow.start()).status_code == 409
    assert (await call(domain, "operator", "POST", f"/runs/{flow.run_id}/rerun", {})).is_success
    assert stands(domain) == ("pending", None, None)


async def test_run_waiting_for_a_served_pool_is_never_marked(domain: Domain) -> None:
    await sent(domain)
    await beacon(domain, "light", "dead")
    time_passes(domain, 3000)
    await beacon(domain, "light", "alive")
    with psycopg.connect(domain.database.url()) as connection:
        connection.execute("update app.attempts set sent_at = sent_at - interval '1 day'")
    assert await look(domain).look() == {}
    time_passes(domain, 24)
    assert await look(domain).look() == {}
    time_passes(domain, 2)
    assert await look(domain).look() == {PoolNotice.MARK: 1}


async def test_a_pause_holds_no_run_for_unroutable(domain: Domain) -> None:
    await sent(domain)
    await look(domain).look()
    await call(domain, "operator", "POST", "/pause", {"reason": "maintenance"})
    time_passes(domain, 5000)
    assert await look(domain).look() == {PoolNotice.CLEAR: 1}
    await call(domain, "operator", "POST", "/resume", {})
    assert await look(domain).look() == {PoolNotice.MARK: 1}


@pytest.mark.parametrize("verb", ["cancel", "commit"])
async def test_run_that_ends_loses_its_mark_without_an_event(domain: Domain, verb: str) -> None:
    await submit(domain)
    flow = await started(domain)
    await flow.beat({"node_id": "make_cog", "state": "dispatched", "pool": "gdal"})
    await look(domain).look()
    if verb == "cancel":
        await call(domain, "operator", "POST", f"/runs/{flow.run_id}/cancel", {"reason": "because"})
    else:
        await flow.commit()
    # A commit takes the mark along; a cancelled run loses it at the next look.
    assert await look(domain).look() == ({PoolNotice.CLEAR: 1} if verb == "cancel" else {})
    assert stands(domain)[1:] == (None, None)
    assert domain.rows("select count(*) from app.events where kind = 'run.routable'") == [(0,)]


async def test_pools_show_in_the_statistics(domain: Domain) -> None:
    await sent(domain)
    await beacon(domain, "gdal", "a")
    await beacon(domain, "gdal", "b")
    await beacon(domain, "gdal", "b")
    await look(domain).look()
    shown = (await call(domain, "operator", "GET", "/stats")).json()["pools"]
    assert shown == [
        {"pool": "gdal", "workers": 2, "waiting": 0, "unroutable": 0, "held": []},
        {"pool": "light", "workers": 0, "waiting": 1, "unroutable": 1, "held": []},
    ]


async def test_run_that_fits_no_host_of_a_served_pool_says_what_none_has_enough_of(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    for worker, size in (
        ("small", {"memory_mb": 4096, "cpus": 8, "gpus": 0}),
        ("large", {"memory_mb": 8192, "cpus": 2}),
    ):
        body = {"worker": worker, **size}
        assert (await call(domain, "worker", "POST", "/pools/gdal/beacon", body)).status_code == 204
    needs = {"memory_mb": 65536, "cpus": 1}
    await flow.beat({"node_id": "make_cog", "state": "dispatched", "pool": "gdal", "needs": needs})
    assert await look(domain).look() == {PoolNotice.MARK: 1}
    shown, why = await record(domain, flow), "65,536 MB of memory (the largest has 8,192)"
    assert (shown["reason"], shown["unroutable_pool"]) == ("unroutable", "gdal")
    assert shown["unroutable_why"] == f"No host of the pool gdal has room for what a try needs: {why}."
    huge = {"worker": "huge", "memory_mb": 65536, "cpus": 1, "gpus": 0}
    assert (await call(domain, "worker", "POST", "/pools/gdal/beacon", huge)).status_code == 204
    assert await look(domain).look() == {PoolNotice.CLEAR: 1}
    assert (await record(domain, flow))["unroutable_why"] is None


@pytest.mark.parametrize(
    ("needs", "size", "fits"),
    [
        ({"memory_mb": 8192}, {"memory_mb": 8192, "cpus": 1, "gpus": 0}, True),
        ({"memory_mb": 8193}, {"memory_mb": 8192, "cpus": 1, "gpus": 0}, False),
        ({"cpus": 1.5}, {"memory_mb": 1, "cpus": 1, "gpus": 0}, False),
        ({"gpu": 1}, {"memory_mb": 1, "cpus": 1, "gpus": 0}, False),
        ({"gpu": 1}, {"memory_mb": 1, "cpus": 1, "gpus": 1}, True),
        ({"gpu": 1, "memory_mb": 9e9}, {}, True),
        (None, {"memory_mb": 1, "cpus": 0.1, "gpus": 0}, True),
    ],
)
async def test_host_takes_what_it_has_room_for_and_one_that_does_not_say_takes_all(
    domain: Domain, needs: dict[str, float] | None, size: dict[str, float], fits: bool
) -> None:
    await submit(domain)
    flow = await started(domain)
    assert (await call(domain, "worker", "POST", "/pools/gdal/beacon", {"worker": "w", **size})).status_code == 204
    await flow.beat({"node_id": "make_cog", "state": "dispatched", "pool": "gdal", "needs": needs})
    assert await look(domain).look() == ({} if fits else {PoolNotice.MARK: 1})


async def test_run_that_no_host_has_room_for_fails_with_what_it_needs(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    size = {"worker": "w", "memory_mb": 1024}
    await call(domain, "worker", "POST", "/pools/gdal/beacon", size)
    await flow.beat({"node_id": "make_cog", "state": "dispatched", "pool": "gdal", "needs": {"memory_mb": 2048}})
    await look(domain).look()
    time_passes(domain, 601)
    await call(domain, "worker", "POST", "/pools/gdal/beacon", size)
    assert await look(domain).look() == {PoolNotice.FAIL: 1}
    [(message,)] = domain.rows("select problem->>'message' from app.runs")
    assert "2,048 MB of memory (the largest has 1,024)" in message


@dataclass
class Hearsay:
    """Stands in for Prefect, which tests/deployments/test_flow_runs.py asks: names by pool, or no answer at all."""

    workers: dict[str, set[str]] | None
    asked: list[str] = field(default_factory=list)

    async def __call__(self, pool: str) -> set[str] | None:
        self.asked.append(pool)
        return None if self.workers is None else self.workers.get(pool, set())


async def test_workers_that_only_prefect_knows_of_serve_a_pool_too(domain: Domain) -> None:
    prefect = Hearsay({"light": {"in-a-cluster"}})
    await sent(domain)
    await look(domain).look()
    assert stands(domain)[1] == "unroutable", "without Prefect's word nobody is known to serve it"
    assert await look(domain, prefect).look() == {PoolNotice.CLEAR: 1}
    time_passes(domain, 3000)
    assert await look(domain, prefect).look() == {}
    assert domain.rows("select worker from app.pool_workers") == [("prefect/in-a-cluster",)]
    prefect.workers = {}
    time_passes(domain, 26)
    assert await look(domain, prefect).look() == {PoolNotice.MARK: 1}
    time_passes(domain, 601)
    assert await look(domain, prefect).look() == {PoolNotice.FAIL: 1}


async def test_prefect_is_asked_only_for_pools_that_runs_wait_for_in_vain(domain: Domain) -> None:
    prefect = Hearsay({})
    await look(domain, prefect).look()
    await beacon(domain, "light")
    await sent(domain)
    await look(domain, prefect).look()
    assert prefect.asked == []
    time_passes(domain, 26)
    await look(domain, prefect).look()
    assert prefect.asked == ["light"]


async def test_a_worker_that_sent_beacons_is_judged_by_its_silence(domain: Domain) -> None:
    """Prefect goes on counting it as online for a minute and a half."""
    prefect = Hearsay({"light": {"light-1"}})
    await beacon(domain, "light", "light-1")
    await sent(domain)
    time_passes(domain, 26)
    assert await look(domain, prefect).look() == {PoolNotice.MARK: 1}


async def test_no_run_is_given_up_while_prefect_does_not_answer(
    domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefect = Hearsay({})
    await sent(domain)
    router = look(domain, prefect)
    assert await router.look() == {PoolNotice.MARK: 1}
    prefect.workers = None
    time_passes(domain, 700)
    assert await router.look() == {}
    prefect.workers = {}  # it is back, and its workers have had no time to say that they are there
    assert await router.look() == {}
    monkeypatch.setattr("domain.loops.unserved_pools.PREFECT_SILENCE_SECONDS", 0.0)
    assert await router.look() == {PoolNotice.FAIL: 1}


async def test_workers_that_left_are_forgotten(domain: Domain) -> None:
    await beacon(domain, "gdal", "a")
    time_passes(domain, 4000)
    await beacon(domain, "gdal", "b")
    await look(domain).look()
    assert domain.rows("select worker from app.pool_workers") == [("b",)]


@pytest.mark.parametrize("pool", ["", "a b", "x" * 64, "-gdal"])
async def test_beacon_for_an_unknown_pool_is_refused(domain: Domain, pool: str) -> None:
    answer = await call(domain, "worker", "POST", f"/pools/{pool}/beacon", {"worker": "w"})
    assert answer.status_code in {404, 422}
