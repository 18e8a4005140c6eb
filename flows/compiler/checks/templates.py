"""Laws of templates: their form, and that what they read exists."""

from collections.abc import Iterator
from typing import Any

from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault, did_you_mean, excerpt, listing
from flows.compiler.model import Use
from flows.compiler.references import Reference
from flows.compiler.result_types import Hint, NoSuchField, follow
from flows.compiler.run_facts import RUN_FACTS

FAN_OUT_NAMES = ("item", "index", "items")
_IN_SCOPE: dict[str, tuple[str, ...]] = {"none": (), "item": ("item", "index"), "batch": ("items", "index")}


def templates_are_well_formed(subject: Subject) -> Iterator[Fault]:
    """A template is text with expressions in it; an expression uses what the language offers."""
    yield from form_faults(subject, subject.model.uses)


def form_faults(subject: Subject, uses: list[Use]) -> Iterator[Fault]:
    for use in uses:
        for complaint in use.template.complaints:
            yield subject.model.document.at_value(use.path, complaint.code, complaint.message, complaint.hint)


def names_exist(subject: Subject) -> Iterator[Fault]:
    """inputs.x, nodes.x and run.x name what exists; there are no other names."""
    for use, reference in _reads(subject):
        if reference.root == subject.model.vocabulary.root:
            yield from _node_faults(subject, use, reference)
        elif reference.root == "inputs":
            yield from _input_faults(subject, use, reference)
        elif reference.root == "run":
            yield from _run_faults(subject, use, reference)
        elif reference.root not in FAN_OUT_NAMES:
            yield from _other_faults(subject, use, reference.root)


def fan_out_names_stay_inside(subject: Subject) -> Iterator[Fault]:
    """item, index and items exist only in the task and item_key of a fan_out; a batch has items, one child item."""
    for use, reference in _reads(subject):
        name = reference.root
        if name not in FAN_OUT_NAMES or name in _IN_SCOPE[use.scope]:
            continue
        if use.scope == "none":
            hint = "only the task and the item_key of a fan_out know it; elsewhere read the fan_in's results"
            yield _fault(subject, use, "item-outside-fan-out", f"{name!r} means nothing here", hint)
        else:
            there = "items" if use.scope == "batch" else "item"
            reason = f"{'with' if use.scope == 'batch' else 'without'} batch_size a child has {there}"
            yield _fault(subject, use, "unknown-name", f"there is no {name!r}: {reason}", f"read {there}")


def read_nodes_are_upstream(subject: Subject) -> Iterator[Fault]:
    """A template reads only nodes that come before its own; outputs may read any."""
    for use, reference in _reads(subject):
        read = reference.steps[0] if reference.root == subject.model.vocabulary.root and reference.steps else None
        if use.node is None or not isinstance(read, str) or read not in subject.model.nodes:
            continue
        if read == use.node:
            yield _fault(subject, use, "not-upstream", f"{read!r} reads itself", "a node sees only what ran before it")
        elif subject.graph.is_ancestor(use.node, of=read):
            message, hint = (
                f"{use.node!r} reads {read!r}, which runs after it",
                f"read it in a node that follows {read}",
            )
            yield _fault(subject, use, "not-upstream", message, hint)
        elif not subject.graph.is_ancestor(read, of=use.node):
            message, hint = (
                f"{use.node!r} reads {read!r}, which need not run before it",
                f"let it wait: give {use.node} depends_on: [{read}], or add {read} to the one it has",
            )
            yield _fault(subject, use, "not-upstream", message, hint)


def read_fields_are_declared(subject: Subject) -> Iterator[Fault]:
    """A field that a template reads is in the declared result."""
    for use, reference in _reads(subject):
        declared, steps = _declared(subject, use, reference)
        try:
            follow(declared, steps)
        except NoSuchField as lacking:
            plain = f"what stands before it is a plain value without fields: leave {excerpt(lacking.step)} out"
            known = f"there are {listing(lacking.known)}" if lacking.known else plain
            hint = did_you_mean(str(lacking.step), lacking.known, known)
            yield _fault(subject, use, "unknown-output", f"{reference}: there is no {excerpt(lacking.step)}", hint)


def _declared(subject: Subject, use: Use, reference: Reference) -> tuple[Hint, tuple[str | int, ...]]:
    """The declared type that a reference starts from, and the steps it takes from there."""
    read = subject.output_read(reference)
    if read:
        return subject.output_type(read[0]), read[1]
    if reference.root == "item" and use.scope == "item":
        return subject.item_type(use), reference.steps
    return Any, ()


def _input_faults(subject: Subject, use: Use, reference: Reference) -> Iterator[Fault]:
    declared = subject.model.input_names
    name = reference.steps[0] if reference.steps else None
    if name is not None and name not in declared:
        hint = did_you_mean(str(name), declared, "declare it under inputs")
        yield _fault(subject, use, "unknown-input", f"there is no input {excerpt(name)}", hint)


def _other_faults(subject: Subject, use: Use, root: str) -> Iterator[Fault]:
    known = ("inputs", subject.model.vocabulary.root, "run", *_IN_SCOPE[use.scope])
    hint = did_you_mean(root, known, f"a template reads {', '.join(known)}; text is quoted")
    yield _fault(subject, use, "unknown-name", f"there is no {excerpt(root)}", hint)


def _node_faults(subject: Subject, use: Use, reference: Reference) -> Iterator[Fault]:
    words = subject.model.vocabulary
    name, fact = (*reference.steps[:2], None, None)[:2]
    if name is None:
        hint = f"name the {words.noun}: {words.root}.<id>.{words.facts[0]}"
        yield _fault(subject, use, "unknown-name", f"{words.root} are read one by one, by name", hint)
    elif name not in subject.model.nodes:
        hint = did_you_mean(str(name), subject.model.nodes)
        yield _fault(subject, use, "unknown-node", f"there is no {words.noun} {excerpt(name)}", hint)
    elif fact not in words.facts:
        told = (
            f"{words.root}.{name} has no value of its own" if fact is None else f"a {words.noun} has no {excerpt(fact)}"
        )
        hint = did_you_mean(str(fact), words.facts, f"read {words.root}.{name}.{' or .'.join(words.facts)}")
        yield _fault(subject, use, "unknown-name", told, hint)


def _run_faults(subject: Subject, use: Use, reference: Reference) -> Iterator[Fault]:
    fact = reference.steps[0] if reference.steps else None
    if fact is not None and fact not in RUN_FACTS:
        hint = did_you_mean(str(fact), RUN_FACTS, f"a run has {listing(RUN_FACTS)}")
        yield _fault(subject, use, "unknown-name", f"a run has no {excerpt(fact)}", hint)


def _reads(subject: Subject) -> Iterator[tuple[Use, Reference]]:
    for use in subject.model.uses:
        for reference in use.template.references:
            yield use, reference


def _fault(subject: Subject, use: Use, code: str, message: str, hint: str) -> Fault:
    return subject.model.document.at_value(use.path, code, message, hint)
