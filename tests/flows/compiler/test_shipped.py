"""The workflows that ship with the platform compile, survive JSON, and run to their end."""

import json
from pathlib import Path
from typing import Any

import pytest

from flows.compiler import (
    Decision,
    Execute,
    Expand,
    Finished,
    ItemCompleted,
    NodeCompleted,
    Plan,
    Schedule,
    compile_files,
)
from flows.handlers.registry import registry

WORKFLOWS = sorted(Path("workflows").glob("*.yaml"))


def example(plan: Plan, node: str) -> Any:
    return registry()[plan.nodes[node].handler or ""].example.model_dump(mode="json")


def run(plan: Plan, **inputs: Any) -> list[Decision]:
    """Run the plan with the handlers' declared examples."""
    schedule = Schedule(plan, plan.resolve_inputs(inputs))
    waiting, seen = schedule.begin(), []
    while waiting:
        decision = waiting.pop(0)
        seen.append(decision)
        match decision:
            case Execute(node):
                waiting += schedule.apply(NodeCompleted(node, example(plan, node)))
            case Expand(node, items):
                for item in items:
                    waiting += schedule.apply(ItemCompleted(node, item.index, example(plan, node)))
            case _:
                pass
    return seen


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_compiles_without_a_fault(path: Path) -> None:
    (compilation,) = compile_files([path], registry())
    assert compilation.faults == ()
    assert compilation.plan is not None
    assert Plan.from_json(json.loads(json.dumps(compilation.plan.to_json()))) == compilation.plan


@pytest.mark.parametrize("name", ["echo_test", "hello_world"])
def test_runs_to_its_end(name: str) -> None:
    (compilation,) = compile_files([f"workflows/{name}.yaml"], registry())
    assert compilation.plan is not None
    assert isinstance(run(compilation.plan)[-1], Finished)
