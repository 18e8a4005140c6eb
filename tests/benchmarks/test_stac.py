"""The benchmark of the catalogue registers all items on every side. Whether targets hold is the machine's to say."""

from benchmarks.stac import run

FIELDS = {"name", "value", "unit", "baseline", "ratio", "target", "holds", "n", "note"}


def test_the_report_has_the_shape_of_all_benchmarks() -> None:
    report = run(items=120, rounds=1)
    assert report["bench"] == "stac"
    results = {result["name"]: result for result in report["results"]}
    assert all(set(result) == FIELDS for result in results.values())
    assert {result["target"] for name, result in results.items() if name.startswith("registered")} == {0.9}
    assert results["approve_seconds"]["value"] > 0
