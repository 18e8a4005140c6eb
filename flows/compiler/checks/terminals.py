"""Laws of entry and exit."""

from collections.abc import Iterator

from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault, nearest


def has_one_start(subject: Subject) -> Iterator[Fault]:
    """A workflow has exactly one start."""
    model = subject.model
    starts = model.of_type("start")
    if not starts and "nodes" in model.fields and not _misspelt(subject, "start"):
        yield model.document.at_key(
            ("nodes",), "no-start", "no node is of type start", "add start: {type: start, next: …}"
        )
    for extra in starts[1:]:
        message = f"{extra.id!r} is another start beside {starts[0].id!r}"
        yield model.document.at_key(extra.path, "many-starts", message, "let one start lead to both: next: [a, b]")


def has_an_end(subject: Subject) -> Iterator[Fault]:
    """A workflow has at least one end."""
    model = subject.model
    if not model.of_type("end") and "nodes" in model.fields and not _misspelt(subject, "end"):
        yield model.document.at_key(("nodes",), "no-end", "no node is of type end", "add end: {type: end}")


def _misspelt(subject: Subject, kind: str) -> bool:
    """Whether some node's type, reported already, was probably meant to be this one."""
    types = (node.raw.get("type") for node in subject.model.of_type("") if isinstance(node.raw, dict))
    return any(isinstance(given, str) and nearest(given, ("start", "end", "task")) == kind for given in types)
