"""One dynamic flow per file under `workflows/`, by name: deployments point to `flows.catalog.raster_ingest` and so on.

Built when asked for: a flow run needs one of them and should not wait for the others.
"""

import os
from functools import cache
from pathlib import Path
from typing import Any

from prefect import Flow

from flows.build import build_flow, build_segment_flow
from flows.compiler import Plan, compile_files
from flows.handlers.registry import registry

WORKFLOWS = Path(os.environ.get("CAIRN_WORKFLOWS_DIR") or Path(__file__).resolve().parent.parent / "workflows")


class BrokenWorkflow(ValueError):
    """The workflow's file has faults."""


def plan_of(workflow_id: str) -> Plan:
    """The compiled plan of one file."""
    (compiled,) = compile_files([WORKFLOWS / f"{workflow_id}.yaml"], registry())
    if compiled.plan is None:
        raise BrokenWorkflow("\n".join(f"{fault.file}:{fault.line}: {fault.message}" for fault in compiled.faults))
    return compiled.plan


@cache
def flow(name: str) -> Flow[..., Any]:
    """The flow of this workflow, or the one for stretches."""
    return build_segment_flow() if name == "segment" else build_flow(plan_of(name))


def __getattr__(name: str) -> Any:
    if name == "segment" or (WORKFLOWS / f"{name}.yaml").is_file():
        return flow(name)
    raise AttributeError(f"There is no workflow {name!r} in {WORKFLOWS}.")
