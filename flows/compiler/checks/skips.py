"""The law of skipped nodes: what may not have run is read with a default."""

from collections.abc import Iterator

from flows.compiler.checks.reach import graph_is_whole
from flows.compiler.checks.subject import Subject
from flows.compiler.diagrams import Diagram, TooManyDecisions
from flows.compiler.faults import Fault
from flows.compiler.model import Use
from flows.compiler.references import Reference
from flows.compiler.triggers import RunConditions


def skipped_nodes_are_read_with_care(subject: Subject) -> Iterator[Fault]:
    """The output of a node that may be skipped while the reader runs is read with a default, or after its status."""
    if not graph_is_whole(subject) or subject.graph.back_edges or not _decides_anything(subject):
        return
    try:
        runs = RunConditions(subject.model, subject.graph)
        yield from [fault for use in subject.model.uses for fault in _faults_of_template(subject, runs, use)]
    except (TooManyDecisions, RecursionError):
        # Too many decisions in one knot to answer exactly, and a guess would be a false alarm.
        return


def _decides_anything(subject: Subject) -> bool:
    nodes = subject.model.nodes.values()
    return any(node.type == "conditional" or "when" in node.fields for node in nodes)


def _faults_of_template(subject: Subject, runs: RunConditions, use: Use) -> Iterator[Fault]:
    minded = _nodes_looked_at(use) | _nodes_looked_at_by_when(subject, use)
    for reference in use.template.references:
        read = _read_before(subject, use, reference)
        if (
            read
            and not reference.guarded
            and read not in minded
            and runs.may_lack(read, _decisions_of(subject, runs, use))
        ):
            reader = f"{use.node!r} runs" if use.node else "the run completes"
            message = f"{read!r} may be skipped when {reader}"
            hint = f"write {reference} | default(…), or look at nodes.{read}.status first"
            yield subject.model.document.at_value(use.path, "may-be-skipped", message, hint)


def _decisions_of(subject: Subject, runs: RunConditions, use: Use) -> Diagram:
    """Return the decisions under which the template is rendered."""
    if use.node is None:
        return runs.any_running([node.id for node in subject.model.of_type("end")])
    return runs.triggered[use.node] if use.path[-1] == "when" else runs.running[use.node]


def _read_before(subject: Subject, use: Use, reference: Reference) -> str:
    """Return the upstream node whose output is read, if any."""
    name, _ = subject.output_read(reference) or ("", ())
    is_before = name and (use.node is None or subject.graph.is_ancestor(name, of=use.node))
    return name if is_before else ""


def _nodes_looked_at(use: Use) -> set[str]:
    """Return the nodes whose status the template looks at, or whose output it tests for existence."""
    references = use.template.references
    by_status = {str(reference.steps[0]) for reference in references if reference.steps[1:2] == ("status",)}
    by_test = {str(reference.steps[0]) for reference in references if reference.tested and reference.steps}
    return by_status | by_test


def _nodes_looked_at_by_when(subject: Subject, use: Use) -> set[str]:
    """Return the nodes that the reader's `when` looks at: where it is false, nothing is read."""
    if use.node is None or use.path[-1] == "when":
        return set()
    path = ("nodes", use.node, "when")
    return {name for other in subject.uses_at(path) for name in _nodes_looked_at(other)}
