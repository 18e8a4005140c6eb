"""Laws of what runs, and where."""

from collections.abc import Iterator

from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault, did_you_mean, excerpt, listing, nearest
from flows.compiler.language import POOL_NAMES
from flows.compiler.model import NodeModel
from flows.pools import POOLS

QUEUE_KEYS = ("queue", "pool")
PROCESSOR_KEYS = ("cpus", "cpu")


def every_handler_is_declared(subject: Subject) -> Iterator[Fault]:
    """A handler that a node names is declared."""
    for node in subject.model.of_type("task", "fan_out"):
        name = node.task.get("handler")
        if name is not None and name not in subject.handlers:
            hint = did_you_mean(name, subject.handlers) + _what_it_needs(subject, node, name)
            path = (*node.task_path, "handler")
            yield subject.model.document.at_value(path, "unknown-handler", f"there is no handler {excerpt(name)}", hint)


def _what_it_needs(subject: Subject, node: NodeModel, name: str) -> str:
    """Return what the proposed handler needs and the node lacks, before another check reports it."""
    proposed = nearest(name, subject.handlers)
    fields = subject.handlers[proposed].params.model_fields if proposed else {}
    params = node.task.get("params")
    given = params if isinstance(params, dict) else {}
    lacking = [field for field, info in fields.items() if info.is_required() and field not in given]
    return f" It needs {listing(lacking)} in params." if lacking else ""


def every_sub_workflow_exists(subject: Subject) -> Iterator[Fault]:
    """A workflow that a node runs is among the files given or those of their folders."""
    for node in subject.model.of_type("workflow", "fan_out"):
        name = node.task.get("workflow")
        if name is not None and name not in subject.siblings:
            others = subject.siblings.keys() - {subject.model.fields.get("workflow_id")}
            hint = did_you_mean(name, others, "sub-workflows are looked up in the folders of the given files")
            path = (*node.task_path, "workflow")
            yield subject.model.document.at_value(
                path, "unknown-workflow", f"there is no workflow {excerpt(name)}", hint
            )


def handlers_run_where_their_needs_are(subject: Subject) -> Iterator[Fault]:
    """A handler is not routed to a pool that lacks what its own offers, as GDAL."""
    for node in subject.model.of_type("task", "fan_out"):
        handler = subject.handler(node)
        for key in QUEUE_KEYS:
            queue = node.task.get(key)
            place = POOL_NAMES.get(queue) if queue is not None else None
            if handler and place and (lacking := POOLS.lacking(place, needed_by=handler.pool)):
                message = f"{handler.name} needs {listing(lacking)}, and {excerpt(queue)} has none"
                hint = f"write {key}: {handler.pool}, or leave it out: the handler knows its pool"
                yield subject.model.document.at_value((*node.task_path, key), "queue-mismatch", message, hint)


def one_name_for_one_thing(subject: Subject) -> Iterator[Fault]:
    """`queue` and `pool` are two names of one field, and so are `cpus` and `cpu`."""
    for node in subject.model.of_type("task", "fan_out"):
        needs = node.task.get("resources", {})
        for path, fields, names in (
            (node.task_path, node.task, QUEUE_KEYS),
            ((*node.task_path, "resources"), needs, PROCESSOR_KEYS),
        ):
            written = [key for key in fields if key in names]
            if len(written) == 2:
                message = f"{written[1]!r} says the same as {written[0]!r}"
                yield subject.model.document.at_key((*path, written[1]), "bad-value", message, "keep one of the two")
