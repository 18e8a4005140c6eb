"""Laws of input declarations: defaults satisfy their own bounds, and bounds say something about their type."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault, Path
from flows.compiler.inputs import BOUNDS, TYPES, Input
from flows.compiler.source import Document


def defaults_fit_their_inputs(subject: Subject) -> Iterator[Fault]:
    """A default has its input's type, lies in its bounds, and belongs to no required input."""
    yield from default_faults(subject.model.document, subject.model.inputs)


def bounds_fit_their_types(subject: Subject) -> Iterator[Fault]:
    """`minimum` says nothing about text, `pattern` nothing about numbers, and so on."""
    yield from bound_faults(subject.model.document, subject.model.inputs)


def default_faults(document: Document, inputs: dict[str, Input]) -> Iterator[Fault]:
    for name, item in inputs.items():
        path = ("inputs", name, "default")
        if item.required and item.has_default:
            message = f"input {name!r} is required, so its default is never used"
            yield document.at_key(path, "bad-input-default", message, "drop required, or the default")
        elif item.has_default:
            for problem in _unbroken(item).problems(item.default):
                hint = f"write {TYPES[item.type].article}, inside the bounds"
                yield document.at_value(path, "bad-input-default", f"the default of {name} {problem}", hint)


def bound_faults(document: Document, inputs: dict[str, Input]) -> Iterator[Fault]:
    for name, item in inputs.items():
        yield from _misplaced(document, ("inputs", name), item)
        yield from _crossed(document, ("inputs", name), item)
        for index, value in enumerate(item.enum or ()):
            if not TYPES[item.type].accepts(value):
                path = ("inputs", name, "enum", index)
                message = f"a value of {name} must be {TYPES[item.type].article}"
                yield document.at_value(path, "bad-value", message, "let the enum hold values of the input's type")


def _misplaced(document: Document, path: Path, item: Input) -> Iterator[Fault]:
    for bound, kinds in BOUNDS.items():
        if getattr(item, bound) is not None and item.type not in kinds:
            message = f"{bound} says nothing about an input of type {item.type}"
            yield document.at_key((*path, bound), "bad-value", message, f"it bounds inputs of type {', '.join(kinds)}")


def _crossed(document: Document, path: Path, item: Input) -> Iterator[Fault]:
    for low, high in (("minimum", "maximum"), ("min_length", "max_length")):
        least, most = getattr(item, low), getattr(item, high)
        if least is not None and most is not None and least > most:
            message = f"{high} {most} is below {low} {least}"
            yield document.at_value((*path, high), "bad-value", message, f"write at least {least}")


def _unbroken(item: Input) -> Input:
    """The input without bounds that do not fit its type: those are faults of their own."""
    unfit: dict[str, Any] = {bound: None for bound, kinds in BOUNDS.items() if item.type not in kinds}
    return replace(item, **unfit)
