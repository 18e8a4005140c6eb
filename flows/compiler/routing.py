"""Decides which way a run goes: what a conditional chooses, and whether an edge is followed."""

from collections.abc import Collection
from typing import Any

from flows.compiler.branch_tests import parse_test
from flows.compiler.expressions import ExpressionError, Names, parse_condition
from flows.compiler.messages import NodeOutcome
from flows.compiler.plan import Choice, Node
from flows.compiler.states import State


def chosen_targets(node: Node, names: Names) -> tuple[str, ...]:
    """The nodes that a conditional goes on to."""
    choice = node.choice
    assert choice is not None  # noqa: S101 - a conditional has its choice by construction
    value = parse_condition(choice.expression).value(names)
    if not choice.by_field:
        return choice.arms[0 if value else 1].targets
    return _first_that_holds(choice, value)


def _first_that_holds(choice: Choice, value: Any) -> tuple[str, ...]:
    for arm in choice.arms:
        try:
            if arm.test is None or parse_test(arm.test)(value):
                return arm.targets
        except TypeError as error:
            raise ExpressionError(f"{arm.test!r} cannot be applied: {error}") from None
    raise ExpressionError(f"no branch holds for {str(value)[:100]!r}, and there is no default")


def edge_is_active(predecessor: Node, outcome: NodeOutcome, name: str) -> bool:
    """Whether the edge from an ended predecessor to this node counts as completed."""
    failed_softly = outcome.state is State.FAILED and predecessor.on_failure == "continue"
    if outcome.state is not State.COMPLETED and not failed_softly:
        return False
    if predecessor.choice is None or not _is_target(predecessor.choice, name):
        return True
    return name in _chosen(outcome)


def _is_target(choice: Choice, name: str) -> bool:
    return any(name in arm.targets for arm in choice.arms)


def _chosen(outcome: NodeOutcome) -> Collection[str]:
    return outcome.output["chosen"] if isinstance(outcome.output, dict) else ()
