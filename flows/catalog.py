"""One dynamic flow per file under `workflows/`, by name: deployments point to `flows.catalog.raster_ingest` and so on.

Built when asked for: a flow run needs one of them and should not wait for the others.
"""

import logging
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from prefect import Flow

from flows.compiler import Plan, compile_files
from flows.handlers.registry import registry
from flows.pools import SEGMENT_FLOW
from flows.runs.flow_factory import build_bare_flow, build_flow, build_segment_flow

log = logging.getLogger("cairn.catalog")
WORKFLOWS = Path(os.environ.get("CAIRN_WORKFLOWS_DIR") or Path(__file__).resolve().parent.parent / "workflows")
KEPT = 256


class BrokenWorkflow(ValueError):
    """The workflow's file has faults."""


def plan_of(workflow_id: str) -> Plan:
    """The compiled plan of one file."""
    (compiled,) = compile_files([WORKFLOWS / f"{workflow_id}.yaml"], registry())
    if compiled.plan is None:
        raise BrokenWorkflow("\n".join(f"{fault.file}:{fault.line}: {fault.message}" for fault in compiled.faults))
    return compiled.plan


def flow(name: str) -> Flow[..., Any]:
    """The flow of this workflow, or the one for stretches. A process that lives long sees when its file changes."""
    return _built(name, None if name == SEGMENT_FLOW else _written(name))


@lru_cache(maxsize=KEPT)
def _built(name: str, _: tuple[int, int] | None) -> Flow[..., Any]:
    if name == SEGMENT_FLOW:
        return build_segment_flow()
    try:
        return build_flow(plan_of(name))
    except BrokenWorkflow as error:  # somebody writes it just now; the runs that come go by what was published
        log.warning("a workflow's file has faults; its runs go on", extra={"workflow": name, "faults": str(error)})
        return build_bare_flow(name)


def _written(name: str) -> tuple[int, int]:
    """Tells one form of the file from another."""
    seen = (WORKFLOWS / f"{name}.yaml").stat()
    return seen.st_mtime_ns, seen.st_size


def __getattr__(name: str) -> Any:
    if name == SEGMENT_FLOW or (WORKFLOWS / f"{name}.yaml").is_file():
        return flow(name)
    raise AttributeError(f"There is no workflow {name!r} in {WORKFLOWS}.")
