"""The law of direction: a workflow only goes forward."""

from collections.abc import Iterator

from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault

_SHOWN = 12


def nothing_leads_back(subject: Subject) -> Iterator[Fault]:
    """No node leads back to itself: one fault per back edge of a depth-first walk in file order."""
    for back in subject.graph.back_edges:
        names = (*back.cycle, back.cycle[0])
        shown = names if len(names) <= _SHOWN else (*names[: _SHOWN - 2], "…", *names[-2:])
        message = f"this leads back: {' → '.join(shown)}"
        hint = "drop this edge; a repeated piece of work is a fan_out, or a retry"
        yield subject.model.document.at_value(back.edge.path, "cycle", message, hint)
