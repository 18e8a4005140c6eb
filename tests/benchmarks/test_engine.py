"""The benchmark of the engine measures all it says it does. Whether targets hold is the machine's to say."""

import pytest

from benchmarks import engine
from benchmarks.engine import Amount, run

pytestmark = pytest.mark.stack
FIELDS = {"name", "value", "unit", "baseline", "ratio", "target", "holds", "n", "note"}
TINY = Amount(rounds=1, rounds_documented=1, items=20, many_items=200, chain=5, sharded=1)
QUICK = ("throughput", "rows", "two_pools")  # what needs no waiting for Prefect's records; `make bench` runs all


@pytest.mark.usefixtures("on_shared_stack")
def test_the_report_has_the_shape_of_all_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "IDLE_LOOK_SECONDS", 0.05)  # the figures are not judged here
    report = run(TINY, QUICK)
    assert report["bench"] == "engine"
    results = {result["name"]: result for result in report["results"]}
    assert all(set(result) == FIELDS for result in results.values())
    assert results["items_per_second"]["ratio"] == pytest.approx(
        results["items_per_second"]["value"] / results["items_per_second"]["baseline"], rel=0.01
    )
    assert results["domain_rows"]["value"] > 0
    assert results["two_pools"]["value"] > 0
    assert results["dropped_messages"]["value"] == 0
    assert "chain_tasks_per_second" not in results
