"""The law of retry policies that one field alone cannot break."""

from collections.abc import Iterator

from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault, Path


def delays_are_in_order(subject: Subject) -> Iterator[Fault]:
    """No first delay is longer than the longest."""
    for path, policy in _policies(subject):
        first, longest = policy.get("initial_delay_seconds"), policy.get("max_delay_seconds")
        if first is not None and longest is not None and first > longest:
            message = f"max_delay_seconds {longest} is below initial_delay_seconds {first}"
            at = (*path, "max_delay_seconds")
            yield subject.model.document.at_value(at, "bad-retry", message, f"write at least {first}")


def _policies(subject: Subject) -> Iterator[tuple[Path, dict[str, float]]]:
    yield ("retry",), subject.model.fields.get("retry", {})
    for node in subject.model.nodes.values():
        yield (*node.task_path, "retry"), node.task.get("retry", {})
