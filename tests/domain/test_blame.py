"""Whose fault it is that a run's process vanished: three losses under one node at work park a run, others do not."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from domain.rules.blame import UNEXPLAINED, is_given_up
from tests.support.acts import Flow, started, submit
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, running_domain

CHILD_LOST = {"code": "child-run-lost", "message": "The child run ended as Crashed."}


@pytest.fixture
async def domain(shared_database: TestDatabase, tmp_path: Path) -> AsyncIterator[Domain]:
    async with running_domain(shared_database, tmp_path) as running:
        yield running


async def vanished(domain: Domain, *events: dict[str, Any]) -> str:
    """Another attempt gets so far, and its child run's process is gone; returns how the run stands."""
    flow: Flow = await started(domain)
    assert (await flow.beat(*events)).is_success
    answer = await flow.fail("lost", **CHILD_LOST)
    return str(answer.json()["state"])


def at_work(node: str, **counts: int) -> dict[str, Any]:
    return {"node_id": node, "state": "running", **counts}


async def test_flow_run_lost_while_no_node_is_at_work_is_not_counted_against_its_run(domain: Domain) -> None:
    """Its nodes wait for a worker; after nine times somebody looks all the same."""
    await submit(domain)
    waits = {"node_id": "validate", "state": "dispatched"}
    assert [await vanished(domain, waits) for _ in range(8)] == ["pending"] * 8
    assert await vanished(domain, waits) == "failed"
    [(message,)] = domain.rows("select problem->>'message' from app.runs")
    assert message.startswith("Given up after 9 attempts")


async def test_third_loss_under_the_same_node_parks_the_run(domain: Domain) -> None:
    await submit(domain)
    assert await vanished(domain, at_work("fetch")) == "pending"
    done = {"node_id": "fetch", "state": "completed"}
    told = [await vanished(domain, done, at_work("validate")) for _ in range(3)]
    assert told == ["pending", "pending", "failed"]
    assert domain.rows("select reason from app.runs") == [("parked",)]


async def test_a_fan_out_that_gets_on_is_not_given_up(domain: Domain) -> None:
    await submit(domain)
    for done in (3, 5, 8, 9):
        assert await vanished(domain, at_work("tiles", items_total=9, items_done=done)) == "pending"
    assert await vanished(domain, at_work("tiles", items_total=9, items_done=9)) == "pending"
    assert await vanished(domain, at_work("tiles", items_total=9, items_done=9)) == "failed"


async def test_reopened_run_counts_its_losses_anew(domain: Domain) -> None:
    await submit(domain)
    while await vanished(domain, at_work("validate")) == "pending":
        pass
    [(run_id,)] = domain.rows("select run_id from app.runs")
    async with domain.as_("operator") as http:
        again = await http.post(f"/api/v1/runs/{run_id}/rerun", json={"scope": "failed"})
    assert again.status_code == 202, again.text
    assert [await vanished(domain, at_work("validate")) for _ in range(3)] == ["pending", "pending", "failed"]


@pytest.mark.parametrize(
    ("used", "blamed", "given_up"),
    [(1, 1, False), (3, 2, False), (3, 3, True), (8, 0, False), (3 * UNEXPLAINED, 0, True)],
)
def test_run_is_given_up_after_so_many_attempts_or_so_much_blame(used: int, blamed: int, given_up: bool) -> None:
    assert is_given_up(used, blamed, 3) is given_up
