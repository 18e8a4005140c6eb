"""What the compiler's tests share: short ways to a plan, to faults, and through a run."""

from collections.abc import Callable, Mapping
from typing import Any

from flows.compiler import (
    Compilation,
    Decision,
    ExecuteNode,
    Expand,
    ItemCompleted,
    NodeCompleted,
    NodeOutcome,
    Plan,
    RunError,
    Schedule,
    compile_text,
)
from flows.compiler.interfaces import Interface
from flows.handlers.registry import registry

BOOM = RunError("handler-failed", "boom")


def compiled(text: str, siblings: Mapping[str, Interface] | None = None) -> Compilation:
    return compile_text(text, "test", registry(), siblings or {})


def plan_of(
    nodes: str, *, inputs: str = "", outputs: str = "{}", siblings: Mapping[str, Interface] | None = None
) -> Plan:
    """A plan of these nodes, which must have no fault. `inputs` and `outputs` are flow mappings."""
    text = f"workflow_id: test\nversion: 1\ninputs: {inputs or '{}'}\nnodes:\n{nodes}\noutputs: {outputs}\n"
    compilation = compiled(text, siblings)
    assert compilation.faults == ()
    assert compilation.plan is not None
    return compilation.plan


def faults_of(text: str) -> list[tuple[str, int, int]]:
    return [(fault.code, fault.line, fault.column) for fault in compiled(text).faults]


def run_through(
    schedule: Schedule, outputs: Callable[[str], Any] = lambda name: {"echoed_params": {"node": name}}
) -> list[Decision]:
    """Complete everything that the schedule starts, in the order it starts it."""
    waiting, seen = schedule.begin(), []
    while waiting:
        decision = waiting.pop(0)
        seen.append(decision)
        match decision:
            case ExecuteNode(name):
                waiting += schedule.apply(NodeCompleted(name, outputs(name)))
            case Expand(name, items):
                for item in items:
                    waiting += schedule.apply(ItemCompleted(name, item.index, outputs(f"{name}__{item.index}")))
            case _:
                pass
    return seen


def states(schedule: Schedule) -> dict[str, str]:
    return {name: state.value for name, state in schedule.states.items()}


def known(**ended: NodeOutcome) -> dict[str, NodeOutcome]:
    return ended
