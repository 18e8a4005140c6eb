"""The benchmark of vectors brings both sides to the same table. Whether targets hold is the machine's to say."""

from benchmarks.vector import run

FIELDS = {"name", "value", "unit", "baseline", "ratio", "target", "holds", "n", "note"}


def test_the_report_has_the_shape_of_all_benchmarks() -> None:
    report = run(features=2_000, rounds=1)
    assert report["bench"] == "vector"
    results = {result["name"]: result for result in report["results"]}
    assert all(set(result) == FIELDS for result in results.values())
    assert results["file_to_indexed_table"]["target"] == 1.0
    assert results["vector.load_chunk"]["n"] == 1
