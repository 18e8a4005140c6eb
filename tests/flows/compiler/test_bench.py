"""The benchmark of compiling answers in the shape of all benchmarks. Whether targets hold is the machine's to say."""

from benchmarks.compile import run, workflow_of
from tests.flows.compiler.support import compiled

FIELDS = {"name", "value", "unit", "baseline", "ratio", "target", "holds", "n", "note"}


def test_the_report_has_the_shape_of_all_benchmarks() -> None:
    report = run(repeats=1)
    assert set(report) == {"bench", "machine", "versions", "results"}
    assert report["bench"] == "compile"
    names = [result["name"] for result in report["results"]]
    assert names == [
        *(f"compile_{size}_nodes" for size in (200, 500, 1000, 2000)),
        "growth_exponent",
        "simulate_1000_items",
    ]
    for result in report["results"]:
        assert set(result) == FIELDS
        # What one try of each takes is noise: a smaller workflow may have taken longer.
        assert result["value"] > 0 or result["name"] == "growth_exponent"
        assert result["n"] == 1
        assert result["holds"] is (None if result["target"] is None else result["value"] <= result["target"])
        assert (result["ratio"] is None) == (result["baseline"] is None)


def test_measured_workflow_has_its_declared_number_of_nodes() -> None:
    plan = compiled(workflow_of(200).replace("workflow_id: bench", "workflow_id: test")).plan
    assert plan is not None
    assert len(plan.nodes) == 200 + 2
