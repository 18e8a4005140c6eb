"""How nodes outside of a part ended: as an operator says, or as an earlier run of the workflow remembers."""

from collections.abc import Collection, Mapping
from typing import Any

from domain.contracts.runs import KnownOutputs
from domain.rules.places import memory_folder
from flows.compiler import Node, NodeOutcome, Plan, RunError, State
from flows.compiler.fanout import Expansion, aggregate
from flows.memory.large_values import KeptValues
from flows.memory.ledger import NODES, LedgerEntry, latest, read
from flows.storage import SmallStore


class ForgottenOutput(Exception):
    """What an earlier run returned is not in run storage any more. Another attempt would not find it either."""

    code = "earlier-output-missing"


def known_outcomes(
    known: KnownOutputs | None, plan: Plan, only: Collection[str], store: SmallStore
) -> dict[str, NodeOutcome]:
    """How the plan's nodes outside of this part ended, as far as it is known."""
    if known is None:
        return {}
    given = {name: NodeOutcome(State.COMPLETED, output) for name, output in known.outputs.items()}
    if known.run_id is None:
        return given
    earlier = _Earlier(store, memory_folder(known.run_id, known.memory))
    asked = [name for name in plan.nodes if name in known.states and name not in given and name not in only]
    told = {name: earlier.outcome(plan, plan.nodes[name], State(known.states[name])) for name in asked}
    return given | {name: outcome for name, outcome in told.items() if outcome is not None}


class _Earlier:
    """The memory of an earlier run."""

    def __init__(self, store: SmallStore, memory: str) -> None:
        self.store, self.memory, self.values = store, memory, KeptValues(store, memory)
        self.nodes = {entry.node: entry for entry in read(store, memory, NODES) if entry.is_completed}

    def outcome(self, plan: Plan, node: Node, state: State) -> NodeOutcome | None:
        """How the node ended; nothing is known of conditionals, and of what did not come to an end."""
        if state is State.SKIPPED:
            return NodeOutcome(state)
        if state is State.FAILED:
            return NodeOutcome(state, None, RunError("failed-earlier", "It failed in the earlier run.", node.id))
        if state is not State.COMPLETED or node.type == "conditional":
            return None
        return NodeOutcome(state, self._output(plan, node))

    def _output(self, plan: Plan, node: Node) -> Any:
        if node.fan_in is not None:
            return aggregate(node.fan_in, self._expansion(plan.nodes[node.fan_in.source]))
        if node.fan_out is not None:
            return self._expansion(node).output()
        if node.type in {"start", "end"}:
            return {}
        entry = self.nodes.get(node.id)
        if entry is None or entry.output is None:
            raise ForgottenOutput(f"What node {node.id} returned in the earlier run is not kept any more.")
        return self.values.load(entry.output)

    def _expansion(self, node: Node) -> Expansion:
        """The fan-out with its children as they ended."""
        assert node.fan_out is not None  # noqa: S101 - a fan-in's source is a fan-out
        entries = latest(read(self.store, self.memory, node.id))
        expansion = Expansion(node.fan_out, node.id, len(entries))
        for entry in entries:
            _add(expansion, entry, self.values)
        return expansion


def _add(expansion: Expansion, entry: LedgerEntry, values: KeptValues) -> None:
    index = entry.index or 0
    expansion.keys[index] = entry.key or str(index)
    if entry.is_completed and entry.output is not None:
        expansion.succeeded[index] = values.load(entry.output)
    else:
        error: Mapping[str, Any] = entry.error or {"code": "failed-earlier", "message": "It failed in the earlier run."}
        expansion.failed[index] = RunError(**error)
