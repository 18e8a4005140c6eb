"""The shipped workflows, decided by the scheduler and done by the real handlers on real files, in this process."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.compiler import RequestPlan, compile_files
from flows.compiler.simulate import Simulation, World, simulate
from flows.handlers.registry import registry
from flows.storage import Zones
from flows.tries.one_try import call_handler, check_params
from tests.support.rasters import context_in

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
FACTS: dict[str, object] = {
    "asset_id": "alps",
    "version_ordinal": 0,
    "revision": 1,
    "version_label": "v1",
    "request_id": "request-1",
    "refs": {"dataset_id": "dem"},
}


def done(workflow: str, root: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, **inputs: Any) -> Simulation:
    """Run the workflow. Handlers that are only planned, and those that want a database, answer their examples."""

    def worked(work: Any, world: World) -> Any:
        handler = world.handlers[work.node.handler]
        if handler.planned or handler.database:
            return handler.example.model_dump(mode="json")
        own = context_in(root / work.name, output_prefix=prefix, facts=FACTS)
        return call_handler(handler, check_params(handler, work.params), replace(own, storage=Zones.local(root)))

    monkeypatch.setattr("flows.compiler.simulate._work_output", worked)
    (compiled,) = compile_files([WORKFLOWS / f"{workflow}.yaml"], registry())
    assert compiled.plan, compiled.faults
    ended = simulate(compiled.plan, inputs, World(registry()))
    assert ended.succeeded, ended.error
    return ended


def staged(plan: str, root: Path, monkeypatch: pytest.MonkeyPatch, **inputs: Any) -> dict[str, Any]:
    """Run the plan's workflows one after another; gives what the request returns."""
    files = [*WORKFLOWS.glob("*.yaml"), WORKFLOWS / "plans" / f"{plan}.yaml"]
    [found] = [each.request_plan for each in compile_files(files, registry()) if each.request_plan]
    assert isinstance(found, RequestPlan)
    given, results = found.resolve_inputs(inputs), dict[str, Any]()
    for step in found.steps:
        own = found.step_inputs(step.id, given, results)
        results[step.id] = done(step.workflow, root, monkeypatch, f"runs/{step.id}", **own).outputs
    return found.result(given, results)
