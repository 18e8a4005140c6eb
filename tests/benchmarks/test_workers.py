"""The benchmark of workers runs each way to its end. Whether targets hold is the machine's to say."""

import pytest

from benchmarks.workers import Amount, run

pytestmark = pytest.mark.stack
FIELDS = {"name", "value", "unit", "baseline", "ratio", "target", "holds", "n", "note"}


@pytest.mark.usefixtures("on_shared_stack")
def test_the_report_has_the_shape_of_all_benchmarks() -> None:
    report = run(Amount(single=1, rushes=1, at_once=2, parents=3, rest_seconds=0.1, quiet_seconds=1))
    assert report["bench"] == "workers"
    results = {result["name"]: result for result in report["results"]}
    assert all(set(result) == FIELDS for result in results.values())
    ways = {f"{pool}_{what}" for pool in ("light", "gdal") for what in ("one", "2_at_once")}
    ordered = {"light_one_ordered", "light_one_ordered_seconds", "light_2_at_once_ordered"}
    assert set(results) == {*ways, *ordered, "idle_load", "light_worker_memory"}
    light = results["light_one"]
    assert light["ratio"] == pytest.approx(light["value"] / light["baseline"], rel=0.02, abs=0.01)
    assert results["light_worker_memory"]["n"] == 3
