"""A process like a worker's that runs compiled flows on order, if asked with a fault planted in their scheduler.

One JSON line in, `{"fault": name or none, "runs": [[workflow, n], …]}`; a line out when all of them have ended.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Iterator
from dataclasses import replace
from typing import Any, cast

from flows import catalog
from flows.compiler import Decision, Expand, Node, NodeOutcome, Schedule
from flows.runs import parent

AT_ONCE = 6


class TakesEveryEdge(Schedule):
    """A fault: what a conditional did not choose runs all the same."""

    def _is_active(self, predecessor: str, name: str) -> bool:
        return True


class ForgivesEverything(Schedule):
    """A fault: a failure never ends the run."""

    def _fail_fast(self, node: Node, outcome: NodeOutcome) -> Iterator[Decision]:
        return iter(())


class WaitsForTheFirst(Schedule):
    """A fault: a node begins when the first of its predecessors has ended."""

    def _undecided(self, node: Node) -> int:
        return min(1, super()._undecided(node))


class HidesOutputs(Schedule):
    """A fault: templates see that a node ended, but not what it returned."""

    def _show(self, name: str, outcome: NodeOutcome) -> None:
        super()._show(name, NodeOutcome(outcome.state, None, outcome.error))


class ForgetsLimits(Schedule):
    """A fault: the limit of a fan-out is forgotten."""

    def _expand(self, node: Node) -> Iterator[Decision]:
        for decision in super()._expand(node):
            yield replace(decision, max_concurrency=None) if isinstance(decision, Expand) else decision


FAULTS: dict[str, type[Schedule]] = {
    made.__name__: made for made in (TakesEveryEdge, ForgivesEverything, WaitsForTheFirst, HidesOutputs, ForgetsLimits)
}


def plant(scheduler: type[Schedule]) -> None:
    """Give it to all who run flows; the compiler, and with it the simulator, keeps its own."""
    rooms = [module for name, module in sys.modules.items() if name.startswith("flows.") and "compiler" not in name]
    users = [module for module in rooms if issubclass(getattr(module, "Schedule", type), Schedule)]
    assert parent in users
    for module in users:
        module.Schedule = scheduler  # type: ignore[attr-defined]


async def carry_out(runs: list[list[Any]]) -> None:
    """A few at a time. Whether they fail is not asked here."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(workflow_id: str, n: int) -> None:
        async with gate:
            await cast("Awaitable[Any]", catalog.flow(workflow_id)(n=n, return_state=True))

    await asyncio.gather(*(one(*run) for run in runs))


def main() -> None:
    """Serve orders until there are no more."""
    for line in sys.stdin:
        order = json.loads(line)
        plant(FAULTS.get(order["fault"], Schedule))
        asyncio.run(carry_out(order["runs"]))
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
