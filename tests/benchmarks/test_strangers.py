"""The benchmark of strangers brings them to the same doors as others. Targets are for quiet machines."""

import pytest

from benchmarks import strangers
from benchmarks.strangers import GROWN, MOVED, STRANGERS, Bench, run

FIELDS = {"name", "value", "unit", "baseline", "ratio", "target", "holds", "n", "note"}


def test_the_report_has_the_shape_of_all_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "BANDS", 5)  # still a heavy picture, and made sooner
    monkeypatch.setattr(Bench, "settle", lambda _: None)
    report = run(rounds=1, seconds=0.4)
    assert report["bench"] == "strangers"
    results = {result["name"]: result for result in report["results"]}
    assert all(set(result) == FIELDS for result in results.values())
    moved = {f"p99_beside_{name.replace('-', '_')}": MOVED for name in STRANGERS}
    grown = {f"{name}_grown": most for name, most in GROWN.items()}
    assert {name: result["target"] for name, result in results.items()} == moved | grown
    assert all(results[name]["value"] > 0 and "refused: none" in results[name]["note"] for name in moved)
