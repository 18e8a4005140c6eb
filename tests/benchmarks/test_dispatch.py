"""The benchmark of dispatching finds every flow run it asked for. Whether targets hold is the machine's to say."""

from benchmarks.dispatch import run

FIELDS = {"name", "value", "unit", "baseline", "ratio", "target", "holds", "n", "note"}


def test_the_report_has_the_shape_of_all_benchmarks() -> None:
    report = run(seconds=1, rush=10)
    assert report["bench"] == "dispatch"
    results = {result["name"]: result for result in report["results"]}
    assert all(set(result) == FIELDS for result in results.values())
    assert results["rush_flow_runs"]["value"] == 10
    assert results["commit_to_flow_run_p99"]["n"] == 2
