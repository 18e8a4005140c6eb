"""What becomes of a run by the word it ends with: its own failure, lost machinery, a hand-over, a cancellation."""

import pytest

from tests.support.acts import call, dispatched, started, submit
from tests.support.platform import Domain

TOLD = {"code": "stopped", "message": "Its worker was told to stop."}


async def test_a_run_handed_over_is_tried_again_at_once_and_uses_up_no_attempt(domain: Domain) -> None:
    await submit(domain)
    for _ in range(5):
        flow = await started(domain)
        assert (await flow.fail("handed-over", **TOLD)).json()["state"] == "pending"
    for left in ("pending", "pending", "failed"):
        assert (await (await started(domain)).fail("lost", **TOLD)).json()["state"] == left
    assert domain.rows("select kind, count(*) from app.events where kind like 'attempt.%%' group by 1 order by 1") == [
        ("attempt.handed-over", 5),
        ("attempt.lost", 2),
        ("attempt.started", 8),
    ]


async def test_endless_handing_over_counts_as_lost_attempts(domain: Domain) -> None:
    await submit(domain)
    states = [(await (await started(domain)).fail("handed-over", **TOLD)).json()["state"] for _ in range(23)]
    assert states == ["pending"] * 22 + ["failed"], "twenty that do not count, three that do"
    [(reason, message)] = domain.rows("select reason, problem->>'message' from app.runs")
    assert reason == "parked"
    assert "handed over 20 times" in message


async def test_a_cancellation_in_prefect_cancels_the_request(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    for _ in range(2):  # the answer may get lost
        assert (await flow.fail("cancelled", **TOLD)).json()["state"] == "cancelled"
    assert domain.rows("select status from app.requests") == [("cancelled",)]
    assert domain.rows("select actor, action from app.audit") == [("prefect", "cancel")]
    assert domain.rows("select actor from app.events where kind = 'run.cancelled'") == [("prefect",)]
    assert await dispatched(domain) == []


async def test_next_attempt_keeps_completed_nodes_and_resets_the_rest(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    await flow.beat(
        {"node_id": "validate", "state": "completed", "tries": 1},
        {"node_id": "make_cog", "state": "dispatched", "pool": "gdal"},
    )
    assert domain.rows("select state, pool from app.run_nodes where node_id = 'make_cog'") == [("dispatched", "gdal")]
    await flow.fail("lost", **TOLD)
    rows = domain.rows("select node_id, state from app.run_nodes where node_id in ('validate', 'make_cog') order by 1")
    assert rows == [("make_cog", "pending"), ("validate", "completed")]


@pytest.mark.parametrize(("scope", "memory", "validated"), [("failed", 1, "completed"), ("all", 2, "pending")])
async def test_rerun_of_failed_nodes_keeps_the_memory_and_rerun_of_all_does_not(
    domain: Domain, scope: str, memory: int, validated: str
) -> None:
    await submit(domain)
    flow = await started(domain)
    await flow.beat(
        {"node_id": "validate", "state": "completed", "tries": 1},
        {"node_id": "make_cog", "state": "failed", "tries": 2, "problem": TOLD},
    )
    await flow.fail()
    path = f"/runs/{flow.run_id}/rerun"
    assert (await call(domain, "operator", "POST", path, {"scope": scope, "definition": "current"})).is_success
    rows = domain.rows("select state, tries, problem from app.run_nodes where node_id = 'make_cog'")
    assert rows == [("pending", 0, None)]
    assert domain.rows("select state from app.run_nodes where node_id = 'validate'") == [(validated,)]
    [again] = await dispatched(domain)
    assert (await again.start()).json()["memory"] == memory
