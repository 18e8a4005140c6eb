"""The law of direction: a workflow only goes forward."""

from collections.abc import Iterator

from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault, excerpt


def nothing_leads_back(subject: Subject) -> Iterator[Fault]:
    """No node leads back to itself: one fault per back edge of a depth-first walk in file order."""
    for back in subject.graph.back_edges:
        message = f"this leads back: {' → '.join((*back.cycle, back.cycle[0]))}"
        hint = "drop this edge; a repeated piece of work is a fan_out, or a retry"
        yield subject.model.document.at_value(back.edge.path, "cycle", message, hint)


def no_workflow_runs_itself(subject: Subject) -> Iterator[Fault]:
    """A sub-workflow does not lead back to the workflow that runs it, however far around."""
    own = subject.model.fields.get("workflow_id")
    for node in subject.model.nodes.values():
        name = node.task.get("workflow")
        if own is not None and isinstance(name, str) and own in _run_by(subject, name):
            message = f"{excerpt(name)} runs {excerpt(own)} again, without end"
            hint = "let the inner workflow do its work itself"
            yield subject.model.document.at_value((*node.task_path, "workflow"), "cycle", message, hint)


def _run_by(subject: Subject, name: str) -> set[str]:
    """A workflow and everything it runs."""
    found, waiting = {name}, [name]
    while waiting:
        inner = subject.siblings.get(waiting.pop())
        fresh = inner.sub_workflows - found if inner else frozenset[str]()
        found |= fresh
        waiting += fresh
    return found
