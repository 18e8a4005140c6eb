"""Laws of conditionals: one form, and a way out in every case."""

from collections.abc import Iterator

from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault
from flows.compiler.model import NodeModel
from flows.compiler.source import Document

_ARMS = ("on_true", "on_false")


def a_conditional_has_one_form(subject: Subject) -> Iterator[Fault]:
    """A conditional has a condition with on_true and on_false, or a condition_field with branches."""
    document = subject.model.document
    for node in subject.model.of_type("conditional"):
        first, second = ("condition" in node.raw), ("condition_field" in node.raw)
        if first and second:
            yield from _foreign(document, node, ("condition_field", "branches"), "a condition stands here already")
        elif first:
            yield from _foreign(document, node, ("branches",), "branches belong to condition_field")
        elif second:
            yield from _foreign(document, node, _ARMS, "on_true and on_false belong to condition")
            if "branches" not in node.raw:
                yield _missing(
                    document, node, "branches", "branches: [{condition: …, next: …}, {default: true, next: …}]"
                )
        else:
            yield _missing(document, node, "condition", "condition: one expression, with on_true and on_false")


def every_case_goes_somewhere(subject: Subject) -> Iterator[Fault]:
    """A condition has on_true and on_false; branches end with their default."""
    document = subject.model.document
    for node in subject.model.of_type("conditional"):
        lacking = [arm for arm in _ARMS if arm not in node.raw]
        if "condition" in node.raw and "condition_field" not in node.raw and lacking:
            message = f"the condition of {node.id!r} has no {' and no '.join(lacking)}"
            hint = f"add {lacking[0]}: with the node to go to in that case"
            yield document.at_key(node.path, "missing-default-branch", message, hint)
        branches = node.raw.get("branches")
        if isinstance(branches, list) and branches and "condition_field" in node.raw:
            yield from _branch_faults(document, node, branches)


def _branch_faults(document: Document, node: NodeModel, branches: list[object]) -> Iterator[Fault]:
    defaults = [index for index, branch in enumerate(branches) if isinstance(branch, dict) and "default" in branch]
    if not defaults:
        message = f"the branches of {node.id!r} have no default"
        hint = "end them with {default: true, next: …}"
        yield document.at_key(node.path, "missing-default-branch", message, hint)
    for index, branch in enumerate(branches):
        if isinstance(branch, dict):
            yield from _one_branch(document, node, index, branch, is_last=index == len(branches) - 1)


def _one_branch(
    document: Document, node: NodeModel, index: int, branch: dict[str, object], *, is_last: bool
) -> Iterator[Fault]:
    path = (*node.path, "branches", index)
    if "default" not in branch:
        if "condition" not in branch:
            message = f"branch {index + 1} of {node.id!r} needs a condition"
            yield document.at_key(node.path, "missing-field", message, 'add condition: "< 100", or default: true')
        return
    at = (*path, "default")
    if branch["default"] is False:
        yield document.at_value(at, "bad-value", "default can only be true", "write default: true, or a condition")
    elif "condition" in branch:
        yield document.at_key(at, "bad-value", "a branch with a condition is no default", "make them two branches")
    elif not is_last:
        yield document.at_value(at, "bad-value", "no branch after the default can be taken", "put the default last")


def _foreign(document: Document, node: NodeModel, keys: tuple[str, ...], message: str) -> Iterator[Fault]:
    for key in keys:
        if key in node.raw:
            hint = "a conditional has condition, on_true and on_false, or condition_field and branches"
            yield document.at_key((*node.path, key), "bad-value", message, hint)


def _missing(document: Document, node: NodeModel, key: str, hint: str) -> Fault:
    return document.at_key(node.path, "missing-field", f"node {node.id!r} needs {key!r}", hint)
