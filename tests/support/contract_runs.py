"""Runs of one plan by one of our engines, for `tests/flows/prefect_engine/contract`: told as JSON what they came to.

A process of its own, on the Prefect server that the environment names, as a worker's: `python -m … fast`. Neither a
domain nor other pools are there; what is put to the test is what Prefect's side shows and keeps.
"""

import asyncio
import fcntl
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateType
from prefect.runtime import flow_run
from prefect.states import Pending
from pydantic import BaseModel

from domain.contracts.runs import NodeEvent, RunFacts
from flows.compiler import Finished, Plan, Schedule
from flows.handlers.context import LOGGER, Context
from flows.handlers.errors import HandlerError
from flows.handlers.registry import handler
from flows.memory.ledger import Ledger
from flows.prefect_engine.engines import EngineName, use_engine
from flows.prefect_engine.inline_flow_run import InlineEngine
from flows.prefect_engine.run_logs import send_our_lines
from flows.prefect_engine.tag_limits import tag_limits
from flows.prefect_engine.tag_slots import slots
from flows.runs.domain_client import AttemptClient
from flows.runs.run_context import RunContext
from flows.runs.runner import Runner
from flows.runs.stop_signals import cancelled_state
from flows.runs.stopping import Stop
from flows.storage import Zones
from tests.flows.compiler.support import plan_of

FACTS = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)
STEP = "contract.step"
INNER = f"""
  start: {{type: start, next: innermost}}
  innermost: {{handler: {STEP}, next: end}}
  end: {{type: end}}
"""
PLAN = f"""
  start: {{type: start, next: [says, retried, fails, slow, each, left_out, inside]}}
  inside: {{type: workflow, workflow: inner, next: end}}
  says: {{handler: {STEP}, params: {{says: a line of the handler}}, next: end}}
  retried: {{handler: {STEP}, params: {{fails: 2}}, retry: {{delays_seconds: [0.01, 0.01]}}, next: end}}
  fails: {{handler: {STEP}, params: {{fails: 9}}, retry: {{max_attempts: 0}}, on_failure: continue, next: end}}
  slow:
    handler: {STEP}
    params: {{seconds: 30}}
    timeout_seconds: 0.2
    retry: {{max_attempts: 0}}
    on_failure: continue
    next: end
  left_out: {{handler: {STEP}, when: "1 > 2", next: end}}
  each:
    type: fan_out
    source: [0, 9, 1]
    item_key: "of-{{{{ item }}}}"
    tolerated_failures: 1
    max_concurrency: 2
    task: {{handler: {STEP}, params: {{fails: "{{{{ item }}}}"}}, retry: {{delays_seconds: [0.01]}}}}
    next: all
  all: {{type: fan_in, next: end}}
  end: {{type: end}}
"""
WAITS = f"""
  start: {{type: start, next: [works, tries]}}
  works: {{handler: {STEP}, params: {{seconds: 600}}, next: end}}
  tries: {{handler: {STEP}, params: {{fails: 9}}, retry: {{delays_seconds: [600]}}, next: end}}
  end: {{type: end}}
"""
MANY = f"""
  start: {{type: start, next: each}}
  each:
    type: fan_out
    source: "{{{{ inputs.numbers }}}}"
    max_concurrency: 100
    task: {{handler: {STEP}, params: {{alone: true}}}}
    next: all
  all: {{type: fan_in, next: end}}
  end: {{type: end}}
"""
ENGINE = cast("EngineName", sys.argv[1]) if __name__ == "__main__" else "fast"
GUARD = "CONTRACT_GUARD"  # names the file that one at a time may hold
AT_WORK_SECONDS = 0.002
spans = InMemorySpanExporter()


class Asked(BaseModel):
    says: str = ""
    fails: int = 0
    seconds: float = 0.0
    alone: bool = False


class Made(BaseModel):
    pass


@handler(STEP, pool="light", example=Made())
def step(params: Asked, context: Context) -> Made:
    """Do as asked."""
    if params.says:
        logging.getLogger(LOGGER).info(params.says)
    if params.alone:
        be_alone(Path(os.environ[GUARD]))
    context.stop_event.wait(params.seconds)
    context.raise_if_stopping()
    if context.try_number < params.fails:
        raise HandlerError("failed as asked")
    return Made()


def be_alone(guard: Path) -> None:
    """Hold the guard for a moment; where somebody else holds it, of any process, leave a line beside it."""
    with guard.open("ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with guard.with_suffix(".together").open("a") as told:
                told.write("together\n")
        time.sleep(AT_WORK_SECONDS)


class Listener:
    """Who is told of nodes, and of flow runs that work for them."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, int | None]] = []
        self.flow_runs: dict[str, list[str]] = {}

    def note(self, event: NodeEvent) -> None:
        self.events.append((event.node_id, event.state, event.tries))

    def note_flow_run(self, flow_run_id: UUID, nodes: Sequence[str]) -> None:
        self.flow_runs[str(flow_run_id)] = list(nodes)


listener = Listener()


async def run_plan(plan: Plan, inputs: Mapping[str, Any], stop: Stop, inner: Plan) -> State[Any]:
    """What a flow of ours does between claim and commit."""
    with tempfile.TemporaryDirectory() as folder:
        zones = Zones.local(Path(folder))
        ledger = Ledger(zones.runs, "run/m1", "a")
        run_context = RunContext(
            FACTS, "light", zones, cast("AttemptClient", listener), ledger, {"inner": inner}, slots=slots
        )
        if ENGINE == "stock":
            run_context.task_runs_cap = sys.maxsize
        async with get_client(sync_client=False) as client:
            await tag_limits.learn(client)
        with closing(run_context):
            verdict = await Runner(run_context, Schedule(plan, inputs, run_context.schedule_facts), stop).run_plan()
    if isinstance(verdict, Finished):
        return State(type=StateType.COMPLETED, name="Completed")
    if stop.reason == "cancelled":
        return cancelled_state("Cancelled", "told to stop")
    return State(type=StateType.FAILED, name="Failed", message=verdict.error.message)


async def in_flow_run(name: str, plan: Plan, inputs: Mapping[str, Any], stopped_after: float | None = None) -> str:
    """Run the plan in a flow run of the engine; the flow run's id."""
    stop, runs, inner = Stop(), [], plan_of(INNER)

    async def body() -> State[Any]:
        runs.append(str(flow_run.id))
        send_our_lines()
        use_engine(ENGINE)
        if stopped_after is not None:
            asyncio.get_running_loop().call_later(stopped_after, stop.set, "cancelled")
        return await run_plan(plan, inputs, stop, inner)

    flow = Flow(fn=body, name=name, persist_result=False, validate_parameters=False)
    if ENGINE == "stock":
        await cast("Awaitable[Any]", flow(return_state=True))
    else:
        async with get_client(sync_client=False) as client:
            made = await client.create_flow_run(flow, state=Pending())
        await InlineEngine.of(flow, made).run_flow()
    return runs[0]


def told_of(span: ReadableSpan) -> dict[str, Any]:
    """What a trace shows of one span."""
    return {
        "name": span.name,
        "run": (span.attributes or {}).get("prefect.run.id"),
        "kind": (span.attributes or {}).get("prefect.run.type"),
        "status": span.status.status_code.name,
        "inside": span.parent is not None,
        "events": [event.name for event in span.events],
    }


async def all_of_it() -> dict[str, Any]:
    """One run of everything, and one that is cancelled."""
    whole = await in_flow_run("whole", plan_of(PLAN, siblings={"inner": plan_of(INNER)}), {})
    seen = [told_of(span) for span in spans.get_finished_spans()]
    events, flow_runs = list(listener.events), dict(listener.flow_runs)
    began = time.monotonic()
    cancelled = await in_flow_run("cancelled", plan_of(WAITS), {}, stopped_after=0.5)
    return {
        "whole": whole,
        "noted": {"events": events, "flow_runs": flow_runs},
        "spans": seen,
        "cancelled": cancelled,
        "cancelled_seconds": time.monotonic() - began,
    }


async def many(count: int) -> dict[str, Any]:
    """A fan-out of so many items whose tag may be limited."""
    plan = plan_of(MANY, inputs="{numbers: {type: array}}")
    began = time.monotonic()
    run = await in_flow_run("many", plan, {"numbers": list(range(count))})
    return {"run": run, "seconds": time.monotonic() - began}


def main() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    what = sys.argv[2]
    told = asyncio.run(all_of_it() if what == "everything" else many(int(what)))
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
