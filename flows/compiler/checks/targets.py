"""The law of edges: what they name exists."""

from collections.abc import Iterator

from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault, did_you_mean, excerpt


def every_target_exists(subject: Subject) -> Iterator[Fault]:
    """`next`, `depends_on`, `on_true`, `on_false` and `branches` name nodes."""
    model = subject.model
    for edge in model.edges:
        if edge.named not in model.nodes:
            message = f"there is no {model.vocabulary.noun} {excerpt(edge.named)}"
            yield model.document.at_value(edge.path, "unknown-node", message, did_you_mean(edge.named, model.nodes))
