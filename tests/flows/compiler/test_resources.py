"""Needs of nodes as files say them: bounds and units are checked, and what earlier files said is understood."""

from pathlib import Path

import pytest

from flows.compiler import Plan, compile_files
from flows.compiler.partition import home_pool
from flows.compiler.plan import Node, Resources
from flows.handlers.registry import registry

FILE = """
workflow_id: needs
version: 1
inputs: {{size_mb: {{type: number, default: 100}}}}
nodes:
  start: {{type: start, next: work}}
  work: {{handler: scripted, queue: gdal, resources: {resources}, next: end}}
  end: {{type: end}}
"""


def compiled(folder: Path, resources: str) -> tuple[Plan | None, list[tuple[str, str, str]]]:
    """The plan, and each fault's code, place and message."""
    file = folder / "needs.yaml"
    file.write_text(FILE.format(resources=resources))
    [result] = compile_files([file], registry())
    return result.plan, [(fault.code, fault.pointer, fault.message) for fault in result.faults]


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("{memory_mb: 2048, cpus: 1.5, gpu: 1}", Resources(2048, 1.5, 1)),
        ("{memory_mb: 512, cpu: 0.5}", Resources(512, 0.5)),
        ('{memory_mb: "{{ inputs.size_mb * 2 }}"}', Resources("{{ inputs.size_mb * 2 }}")),
        ("{}", Resources()),
    ],
)
def test_needs_are_what_the_file_says(tmp_path: Path, said: str, means: Resources) -> None:
    plan, faults = compiled(tmp_path, said)
    assert faults == []
    assert plan is not None
    assert plan.nodes["work"].resources == means
    assert Plan.from_json(plan.to_json()).nodes["work"].resources == means


@pytest.mark.parametrize(
    ("said", "code", "field", "words"),
    [
        ("{memory_mb: 2GB}", "bad-value", "memory_mb", "megabytes"),
        ("{memory_mb: 0}", "bad-value", "memory_mb", "from 16"),
        ("{memory_mb: 5000000}", "bad-value", "memory_mb", "4194304"),
        ("{cpus: 0}", "bad-value", "cpus", "from 0.1"),
        ("{cpus: two}", "wrong-type", "cpus", "processors"),
        ("{gpu: 0.5}", "wrong-type", "gpu", "GPUs"),
        ("{gpu: 17}", "bad-value", "gpu", "from 0 to 16"),
        ("{memory: 2048}", "unknown-field", "memory", "memory"),
        ("{cpus: 1, cpu: 1}", "bad-value", "cpu", "says the same"),
        ('{memory_mb: "{{ nodes.work.output.returns }}"}', "not-upstream", "memory_mb", "reads itself"),
        ('{memory_mb: "{{ inputs.size }}"}', "unknown-input", "memory_mb", "size"),
    ],
)
def test_wrong_need_is_told_at_its_place(tmp_path: Path, said: str, code: str, field: str, words: str) -> None:
    _, faults = compiled(tmp_path, said)
    assert [(found, pointer) for found, pointer, _ in faults] == [(code, f"/nodes/work/resources/{field}")], faults
    assert words in faults[0][2]


@pytest.mark.parametrize(("said", "home"), [("{}", "gdal"), ("{memory_mb: 64}", "light"), ("{gpu: 1}", "light")])
def test_run_whose_nodes_say_what_they_need_lives_at_home(tmp_path: Path, said: str, home: str) -> None:
    """There it orders a child run, which is given that."""
    plan, _ = compiled(tmp_path, said)
    assert plan is not None
    assert home_pool(plan) == home


def test_plan_of_an_earlier_release_is_understood() -> None:
    node = Node.from_json({"id": "n", "type": "task", "resources": {"memory_mb": 64, "cpu": 2}, "priority": "normal"})
    assert (node.resources, node.priority) == (Resources(64, 2), "normal")
