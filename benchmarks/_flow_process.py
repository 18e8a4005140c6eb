"""A process that runs flows on order, compiled and hand-written ones alike: one JSON line in, one out.

It is started with a worker's environment. Ours is the compiled flow, which registers with the domain and hands in its
outcome there; both kinds are awaited in the same event loop, against the same server.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from prefect import Flow, task_engine
from prefect.utilities.engine import emit_task_run_state_change_event

CLEAR_PEAK = "5"


def main() -> None:
    """Serve orders until there are no more."""
    emitted: dict[str, str] = {}
    _watch_task_runs(emitted)
    for line in sys.stdin:
        order = json.loads(line)
        emitted.clear()
        answer = asyncio.run(_run(order)) | {"task_runs": emitted}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _watch_task_runs(emitted: dict[str, str]) -> None:
    """Note each task run that the engine tells the server of, and the flow run it belongs to."""

    def noting(task_run: Any, initial_state: Any, validated_state: Any, follows: Any = None) -> Any:
        emitted[str(task_run.id)] = str(task_run.flow_run_id)
        return emit_task_run_state_change_event(task_run, initial_state, validated_state, follows)

    vars(task_engine)["emit_task_run_state_change_event"] = noting


async def _run(order: dict[str, Any]) -> dict[str, Any]:
    os.environ.update(order["environment"])
    flow = _flow(order["flow"])
    before = _forget_peak_memory()
    began = time.perf_counter()
    await flow(**order["parameters"])
    return {"seconds": time.perf_counter() - began, "grown_mb": _memory_mb("VmHWM") - before}


def _flow(name: str) -> Flow[..., Any]:
    from benchmarks._handwritten import FLOWS
    from flows import catalog

    return FLOWS[name] if name in FLOWS else catalog.flow(name)


def _forget_peak_memory() -> float:
    """Return the memory held now, and begin to count its peak anew."""
    Path("/proc/self/clear_refs").write_text(CLEAR_PEAK)
    return _memory_mb("VmRSS")


def _memory_mb(field: str) -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith(f"{field}:"))


if __name__ == "__main__":
    main()
