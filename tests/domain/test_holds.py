"""Runs that wait because somebody paused what they wait for: shown as paused, by name, and never given up."""

from dataclasses import dataclass, field

import pytest

from domain.loops.unserved_pools import UnservedPoolSweep
from domain.repositories import outbox
from domain.rules.holds import NO_ROOM, PAUSED
from domain.rules.routing import PoolNotice
from tests.support.acts import Flow, call, dispatched, started, submit, time_passes
from tests.support.platform import Domain


@pytest.fixture
async def domain(domain: Domain) -> Domain:
    """The domain, once it has listened long enough to have heard every worker."""
    time_passes(domain, 25)
    return domain


@dataclass
class HeldInPrefect:
    """Stands in for Prefect, which tests/deployments/test_flow_runs.py asks: held places, or no answer at all."""

    places: dict[str, str] | None = field(default_factory=dict)
    asked: int = 0

    async def __call__(self) -> dict[str, str] | None:
        self.asked += 1
        return self.places


def sweep(domain: Domain, prefect: HeldInPrefect) -> UnservedPoolSweep:
    return UnservedPoolSweep(domain.service.database, 5, 25, 600, None, prefect)


async def sent(domain: Domain) -> Flow:
    """An attempt that was sent and that no worker has taken."""
    await submit(domain)
    [flow] = await dispatched(domain)
    await outbox.link(domain.service.database, flow.run_id, 1, flow.flow_run_id)
    return flow


async def shown(domain: Domain) -> tuple[object, object]:
    """The reason of the one run and what holds it, as lists and as its record show it."""
    [run] = (await call(domain, "operator", "GET", "/runs")).json()["runs"]
    record = (await call(domain, "operator", "GET", f"/runs/{run['run_id']}")).json()
    assert (record["reason"], record["held_by"]) == (run["reason"], run["held_by"])
    return run["reason"], run["held_by"]


async def test_sent_run_of_a_pool_that_prefect_holds_shows_it_until_it_goes_on(domain: Domain) -> None:
    await sent(domain)
    prefect = HeldInPrefect({"light": PAUSED, "gdal": PAUSED})
    assert await sweep(domain, prefect).look() == {}, "nobody serves it, and nobody is to"
    assert await shown(domain) == ("paused", "pool light is paused in Prefect")
    time_passes(domain, 5000)
    assert await sweep(domain, prefect).look() == {}, "and it is not given up"
    prefect.places = {"light/normal": NO_ROOM}
    await sweep(domain, prefect).look()
    assert await shown(domain) == ("paused", "queue light/normal has a limit of 0 in Prefect")
    prefect.places = {"light/high": PAUSED, "gdal": PAUSED}
    assert await sweep(domain, prefect).look() == {PoolNotice.MARK: 1}
    assert await shown(domain) == ("unroutable", None)


async def test_child_run_of_a_held_pool_marks_its_run_paused_while_it_waits(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    prefect = HeldInPrefect({"gdal": PAUSED, "light": PAUSED})
    await flow.beat({"node_id": "make_cog", "state": "dispatched", "pool": "vast"})
    assert await sweep(domain, prefect).look() == {PoolNotice.MARK: 1}
    assert await shown(domain) == ("unroutable", None), "what has begun on a held pool goes on"
    await flow.beat({"node_id": "make_cog", "state": "dispatched", "pool": "gdal"})
    assert await sweep(domain, prefect).look() == {PoolNotice.CLEAR: 1}
    assert await shown(domain) == ("paused", "pool gdal is paused in Prefect")
    await flow.beat({"node_id": "make_cog", "state": "running"})
    assert await shown(domain) == (None, None)
    assert (await flow.commit()).is_success


async def test_runs_of_a_pool_that_nobody_serves_are_unmarked_once_somebody_pauses_it(domain: Domain) -> None:
    await sent(domain)
    prefect = HeldInPrefect()
    assert await sweep(domain, prefect).look() == {PoolNotice.MARK: 1}
    prefect.places = {"light": PAUSED}
    assert await sweep(domain, prefect).look() == {PoolNotice.CLEAR: 1}
    assert await shown(domain) == ("paused", "pool light is paused in Prefect")


@pytest.mark.parametrize(
    ("order", "body", "words"),
    [
        ("/pause", {"reason": "maintenance"}, "dispatch is paused"),
        ("/pause", {"reason": "maintenance", "platform_id": "ddh"}, "platform ddh is paused"),
    ],
)
async def test_run_that_a_pause_of_ours_holds_shows_it(
    domain: Domain, order: str, body: dict[str, str], words: str
) -> None:
    await submit(domain)
    assert (await call(domain, "operator", "POST", order, body)).is_success
    assert await shown(domain) == ("paused", words)


async def test_run_that_a_limit_of_zero_holds_shows_it_until_it_is_sent(domain: Domain) -> None:
    await submit(domain)
    limit = {"kind": "in_flight", "of": "platform", "name": "ddh"}
    assert (await call(domain, "operator", "PUT", "/limits", limit | {"value": 0})).is_success
    assert await shown(domain) == ("paused", "platform ddh has a limit of 0 in flight")
    assert (await call(domain, "operator", "PUT", "/limits", limit | {"value": 1})).is_success
    assert await shown(domain) == (None, None)


async def test_prefect_is_asked_only_while_something_waits_or_was_held(domain: Domain) -> None:
    prefect = HeldInPrefect({"light": PAUSED})
    await sweep(domain, prefect).look()
    assert prefect.asked == 0
    await sent(domain)
    await sweep(domain, prefect).look()
    assert prefect.asked == 1


async def test_what_was_held_stays_so_while_prefect_gives_no_answer(domain: Domain) -> None:
    await sent(domain)
    prefect = HeldInPrefect({"light": PAUSED})
    await sweep(domain, prefect).look()
    prefect.places = None
    await sweep(domain, prefect).look()
    assert await shown(domain) == ("paused", "pool light is paused in Prefect")


async def test_statistics_say_what_is_held_of_each_pool(domain: Domain) -> None:
    await sent(domain)
    await sweep(domain, HeldInPrefect({"gdal": PAUSED, "light/low": NO_ROOM})).look()
    pools = (await call(domain, "operator", "GET", "/stats")).json()["pools"]
    assert [(pool["pool"], pool["held"]) for pool in pools] == [
        ("gdal", ["pool gdal is paused in Prefect"]),
        ("light", ["queue light/low has a limit of 0 in Prefect"]),
    ]
