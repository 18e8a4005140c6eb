"""A part of a workflow takes over what an earlier run remembers: of tasks, fan-outs and what was collected of them."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from domain.contracts.runs import KnownOutputs
from flows.compiler import Schedule, State
from flows.compiler.messages import ExecuteNode, Finished, NodeCompleted
from flows.memory.earlier import ForgottenOutput, known_outcomes
from flows.memory.large_values import TRAVELS_BYTES, KeptValues
from flows.memory.ledger import Ledger, LedgerEntry
from flows.storage import LocalStore
from tests.flows.compiler.support import plan_of

RUN = UUID(int=7)
MEMORY = f"{RUN}/m2"
WORK = """
  start: {type: start, next: first}
  first: {handler: echo, next: many}
  many: {type: fan_out, source: "{{ [1, 2, 3] }}", tolerated_failures: 1, task: {handler: echo}, next: all}
  all: {type: fan_in, next: way}
  way: {type: conditional, condition: "1 == 1", on_true: last, on_false: never}
  never: {handler: echo, next: end}
  last: {handler: echo, params: {first: "{{ nodes.first.output }}", all: "{{ nodes.all.output }}"}, next: end}
  end: {depends_on: {any_of: [never, last]}, type: end}
"""
STATES = dict.fromkeys(("start", "first", "many", "all", "way", "last", "end"), "completed") | {"never": "skipped"}


def entry(values: KeptValues, node: str, output: Any = None, index: int | None = None) -> LedgerEntry:
    failed = output is None
    error = {"code": "c", "message": "it broke", "node_id": node, "partner_may_read": False}
    return LedgerEntry(
        node, "d", "failed" if failed else "completed", 1, "w", 1.0, 1.0, index, None if index is None else f"k{index}",
        None if failed else values.dump(output), error if failed else None,
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """Run storage as the earlier run left it."""
    store = LocalStore(tmp_path)
    ledger = Ledger(store, MEMORY, "a")
    ledger.record(entry(ledger.values, "first", {"text": "x" * TRAVELS_BYTES}))
    for index in range(2):
        ledger.record(entry(ledger.values, "many", {"n": index}, index))
    ledger.record(entry(ledger.values, "many", None, 2))
    return store


def known_of(**told: Any) -> KnownOutputs:
    return KnownOutputs.model_validate({"run_id": RUN, "memory": 2, "states": STATES} | told)


def test_part_goes_on_from_what_the_earlier_run_returned(store: LocalStore) -> None:
    plan = plan_of(WORK)
    known = known_outcomes(known_of(), plan, ["last", "end"], store)
    assert {name for name in plan.nodes if name not in known} == {"way", "last", "end"}
    assert known["never"].state is State.SKIPPED
    schedule = Schedule(plan, {}, {}, ["last", "end"], known)
    [begun] = schedule.begin()
    assert isinstance(begun, ExecuteNode)
    assert len(begun.params["first"]["text"]) == TRAVELS_BYTES
    collected = begun.params["all"]
    assert (collected["results"], collected["succeeded"]) == ([{"n": 0}, {"n": 1}], 2)
    assert collected["failed"] == [{"key": "k2", "index": 2, "error": "it broke"}]
    assert isinstance(schedule.apply(NodeCompleted("last", {}))[-1], Finished)


def test_output_that_is_given_takes_the_place_of_what_is_remembered(store: LocalStore) -> None:
    plan = plan_of(WORK)
    assert known_outcomes(known_of(outputs={"first": 5}), plan, ["last"], store)["first"].output == 5
    assert known_outcomes(KnownOutputs(outputs={"first": 5}), plan, ["last"], store)["first"].output == 5
    assert known_outcomes(None, plan, ["last"], store) == {}


def test_output_that_is_not_kept_any_more_is_said_by_its_node(tmp_path: Path) -> None:
    with pytest.raises(ForgottenOutput, match="node first"):
        known_outcomes(known_of(), plan_of(WORK), ["last"], LocalStore(tmp_path))
