"""The benchmark of the gateway answers in the shape of all benchmarks. Whether targets hold is the machine's to say."""

import pytest

from benchmarks._load import HeldRate, highest
from benchmarks.gateway import run

FIELDS = {"name", "value", "unit", "baseline", "ratio", "target", "holds", "n", "note"}


def test_the_report_has_the_shape_of_all_benchmarks() -> None:
    report = run(seconds=0.3)
    assert report["bench"] == "gateway"
    results = {result["name"]: result for result in report["results"]}
    assert {
        "submits_per_second",
        "submits_over_domain_alone",
        "sustained_submits_per_second",
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
    sustained = results["sustained_submits_per_second"]
    assert 0 <= sustained["value"] <= throughput["value"]
    assert "no growing backlog" in sustained["note"]
    assert results["retry_after_in_429s"]["value"] == 1.0


CALM, LATE = [0.01] * 300, [0.01] * 290 + [1.0] * 10
GROWING = [0.001 * number for number in range(200)]


@pytest.mark.parametrize(
    ("delays", "held"),
    [
        ([CALM, CALM, CALM], 30),
        ([CALM, CALM, GROWING], 20),
        ([CALM, LATE, CALM], 10),
        ([GROWING, CALM, CALM], None),
    ],
)
def test_a_rate_is_sustained_where_delays_stay_small_and_do_not_grow(
    delays: list[list[float]], held: float | None
) -> None:
    found = highest([HeldRate(10 * number, each) for number, each in enumerate(delays, start=1)], 0.25)
    assert (found.rate if found else None) == held
