"""The benchmark of submissions answers in the shape of all benchmarks. Whether targets hold is the machine's to say."""

import pytest

from benchmarks.submit import run

FIELDS = {"name", "value", "unit", "baseline", "ratio", "target", "holds", "n", "note"}


def test_the_report_has_the_shape_of_all_benchmarks() -> None:
    report = run(seconds=0.3, history=100)
    assert report["bench"] == "submit"
    results = {result["name"]: result for result in report["results"]}
    assert {
        "submissions_per_second",
        "p50_at_half_load",
        "p99_at_half_load",
        "after_100_requests",
        "profile_sqlalchemy",
    } <= set(results)
    for result in results.values():
        assert set(result) == FIELDS
        assert result["n"] > 0
    throughput = results["submissions_per_second"]
    assert throughput["ratio"] == pytest.approx(throughput["value"] / throughput["baseline"], abs=0.01)
    shares = [result["value"] for name, result in results.items() if name.startswith("profile_")]
    assert sum(shares) == pytest.approx(1, abs=0.02)
