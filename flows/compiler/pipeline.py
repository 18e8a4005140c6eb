"""The whole compiler in one place: text → document → model → laws → Plan. One file, or many that know each other."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from flows.compiler.checks import check
from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault, by_place
from flows.compiler.interfaces import Interface, Sketch
from flows.compiler.lower import lower
from flows.compiler.model import Model, build
from flows.compiler.plan import Plan
from flows.compiler.source import Document, read
from flows.handlers.registry import AnyHandler

Handlers = Mapping[str, AnyHandler]


@dataclass(frozen=True)
class Compilation:
    """What became of one file: a plan, or faults."""

    file: str
    text: str
    plan: Plan | None
    faults: tuple[Fault, ...]


def compile_text(
    text: str, file: str, handlers: Handlers, siblings: Mapping[str, Interface] = MappingProxyType({})
) -> Compilation:
    """Compile one workflow. `siblings` are the workflows that it may run, by id."""
    document = read(text, file)
    return _compile(document, handlers, siblings) if document.readable else _refused(document)


def _refused(document: Document) -> Compilation:
    return Compilation(document.file, document.text, None, tuple(document.faults))


def _compile(document: Document, handlers: Handlers, siblings: Mapping[str, Interface]) -> Compilation:
    model, shape_faults = build(document)
    own = {str(model.fields.get("workflow_id")): Sketch(model.inputs, model.fields.get("outputs", {}))}
    subject = Subject(model, handlers, {**own, **siblings})
    faults = [*document.faults, *shape_faults, *check(subject)]
    ordered = tuple(sorted(dict.fromkeys(faults), key=by_place))
    return Compilation(document.file, document.text, None if ordered else lower(subject), ordered)


def compile_files(paths: Iterable[str | Path], handlers: Handlers) -> list[Compilation]:
    """Compile files that may run each other."""
    return [compile_text(Path(path).read_text(), str(path), handlers) for path in paths]


__all__ = ["Compilation", "Model", "compile_files", "compile_text"]
