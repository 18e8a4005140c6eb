"""The benchmark of serving reads tiles on both sides and sees decisions. Targets are for quiet machines."""

import pytest

from benchmarks.serving import run

FIELDS = {"name", "value", "unit", "baseline", "ratio", "target", "holds", "n", "note"}


def test_the_report_has_the_shape_of_all_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAIRN_BENCH_SHORT", "1")
    report = run(rounds=1, tiles=8, decisions=2)
    assert report["bench"] == "serving"
    results = {result["name"]: result for result in report["results"]}
    assert all(set(result) == FIELDS for result in results.values())
    assert {name: result["target"] for name, result in results.items()} == {
        "tiles": 1.0,
        "tile_cpu": 1.0,
        "approve_to_visible_p95": 1.0,
        "unpublish_to_hidden_p95": 5.0,
    }
    assert all(result["value"] > 0 for result in results.values())
