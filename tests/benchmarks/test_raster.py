"""The benchmark of rasters answers in the shape of all benchmarks. Whether targets hold is the machine's to say."""

import pytest

from benchmarks.raster import Amount, run

FIELDS = {"name", "value", "unit", "baseline", "ratio", "target", "holds", "n", "note"}


def test_the_report_has_the_shape_of_all_benchmarks() -> None:
    report = run(Amount(pixels=1024, rounds=1))
    assert report["bench"] == "raster"
    results = {result["name"]: result for result in report["results"]}
    assert {"reproject", "optimise", "size", "memory", "tiled_on_two", "memory_at_four_times"} <= set(results)
    for result in results.values():
        assert set(result) == FIELDS
        assert result["value"] > 0
    assert results["size"]["ratio"] == pytest.approx(1, abs=0.05)
    assert results["reproject"]["ratio"] == pytest.approx(
        results["reproject"]["value"] / results["reproject"]["baseline"], abs=0.01
    )
