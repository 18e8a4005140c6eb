"""The benchmark of the gateway answers in the shape of all benchmarks. Whether targets hold is the machine's to say."""

import pytest

from benchmarks.gateway import run

FIELDS = {"name", "value", "unit", "baseline", "ratio", "target", "holds", "n", "note"}


def test_the_report_has_the_shape_of_all_benchmarks() -> None:
    report = run(seconds=0.5)
    assert report["bench"] == "gateway"
    results = {result["name"]: result for result in report["results"]}
    assert {
        "submits_per_second",
        "submits_over_domain_alone",
        "submit_p99",
        "polls_per_second",
        "p99_beside_overload",
        "retry_after_in_429s",
        "gateway_ms_per_submit",
    } <= set(results)
    for result in results.values():
        assert set(result) == FIELDS
        assert result["n"] > 0
    throughput = results["submits_per_second"]
    assert throughput["ratio"] == pytest.approx(throughput["value"] / throughput["baseline"], abs=0.01)
    assert results["retry_after_in_429s"]["value"] == 1.0
