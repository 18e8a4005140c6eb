"""What tries measure is summed for each run, workflow and platform, and counted once whoever tells it again."""

from typing import Any

from tests.support.acts import Flow, call, dispatched, started, submit, time_passes
from tests.support.platform import Domain

ROWS = "select memory, name, value from app.run_metrics order by run_id, memory, name"


async def stats(domain: Domain) -> Any:
    return (await call(domain, "operator", "GET", "/stats")).json()


async def ran(domain: Domain, number: int, **metrics: float) -> Flow:
    await submit(domain, refs={"dataset_id": "d", "resource_id": str(number)})
    flow = await started(domain)
    assert (await flow.commit(metrics=metrics)).status_code == 200
    return flow


async def test_commit_told_twice_keeps_its_sums_once(domain: Domain) -> None:
    flow = await ran(domain, 1, features=5, tokens=0.5)
    assert (await flow.commit(metrics={"features": 5, "tokens": 0.5})).status_code == 200
    assert domain.rows(ROWS) == [(1, "features", 5.0), (1, "tokens", 0.5)]
    record = (await call(domain, "operator", "GET", f"/runs/{flow.run_id}")).json()
    assert record["metrics"] == {"features": 5.0, "tokens": 0.5}


async def test_rerun_replaces_the_sums_of_what_it_remembers_and_adds_what_it_does_anew(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    broken = {"code": "c", "message": "m"}
    assert (await flow.say("fail", problem=broken, metrics={"tokens": 2.0})).status_code == 200
    for scope, told in (("failed", 3.0), ("all", 4.0)):
        again = {"scope": scope, "definition": "pinned"}
        assert (await call(domain, "operator", "POST", f"/runs/{flow.run_id}/rerun", again)).status_code == 202
        time_passes(domain, 100)
        [next_one] = await dispatched(domain)
        await next_one.start()
        assert (await next_one.say("fail", problem=broken, metrics={"tokens": told})).is_success
    assert domain.rows(ROWS) == [(1, "tokens", 3.0), (2, "tokens", 4.0)]
    record = (await call(domain, "operator", "GET", f"/runs/{flow.run_id}")).json()
    assert record["metrics"] == {"tokens": 7.0}


async def test_statistics_show_what_a_run_costs_by_workflow_and_platform(domain: Domain) -> None:
    await ran(domain, 1, features=10)
    await ran(domain, 2, features=20, tokens=1)
    await ran(domain, 3)
    shown = await stats(domain)
    features, tokens = {"total": 30, "runs": 2, "cost_per_run": 15}, {"total": 1, "runs": 1, "cost_per_run": 1}
    assert shown["metrics"] == {"features": features, "tokens": tokens}
    assert [one["metrics"] for one in shown["workflows"]] == [shown["metrics"]]
    assert [(one["platform_id"], one["metrics"]) for one in shown["platforms"]] == [("ddh", shown["metrics"])]


async def test_sums_of_a_bad_name_or_no_number_are_refused_whole(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    for bad in ({"a b": 1.0}, {"x" * 64: 1.0}, {f"n{number}": 1.0 for number in range(101)}):
        assert (await flow.commit(metrics=bad)).status_code == 422
    assert (await flow.commit(metrics={"x" * 63: 1.0})).status_code == 200


async def test_tries_that_followed_failed_ones_are_told_by_workflow_cell_and_storm(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    again = [{"node_id": "validate", "state": "running", "tries": number} for number in range(1, 13)]
    counts = {"items_total": 50, "items_done": 30, "items_failed": 0, "items_retried": 7}
    await flow.beat(*again, {"node_id": "tiles", "state": "running", **counts})
    shown: dict[str, Any] = {}
    for _ in ("while it works", "once it has ended"):
        shown = await stats(domain)
        cells = [(cell["node_id"], cell["retries"]) for cell in shown["retries"]["cells"]]
        assert cells == [("validate", 11), ("tiles", 7)]
        [storm] = shown["retry_storms"]
        assert (storm["workflow_id"], storm["repeated_attempts"], storm["repeated_tries"]) == ("raster_ingest", 0, 18)
        await flow.beat({"node_id": "tiles", "state": "completed"})
    assert shown["workflows"][0]["repeated_tries"] == 18
    assert shown["retries"]["cell_seconds"] == 3600
