"""Applies laws between files, and shows files to each other: ids, interfaces, served submissions."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from flows.compiler.faults import Fault, excerpt
from flows.compiler.interfaces import Interface, Sketch
from flows.compiler.model import Model, build
from flows.compiler.source import MAX_BYTES, Document, read, read_bytes
from flows.compiler.steps import build_plan, is_plan

SUFFIXES = (".yaml", ".yml")


@dataclass
class Draft:
    """One file on its way: its document, and its model where it could be read at all."""

    document: Document
    model: Model | None = None
    shape_faults: tuple[Fault, ...] = ()

    @property
    def identity(self) -> str | None:
        """The workflow_id or plan_id, where there is one."""
        fields = self.model.fields if self.model else {}
        given = fields.get("workflow_id", fields.get("plan_id"))
        return given if isinstance(given, str) else None

    @property
    def is_plan(self) -> bool:
        return is_plan(self.document)


def draft_text(text: str, file: str) -> Draft:
    return _draft(read(text, file))


def draft_file(path: Path, file: str) -> Draft:
    """Read a file, never more of it than a workflow may hold. Raises OSError where it cannot be read."""
    with path.open("rb") as stream:
        return _draft(read_bytes(stream.read(MAX_BYTES + 1), file))


def _draft(document: Document) -> Draft:
    if not document.readable:
        return Draft(document)
    model, faults = build_plan(document) if is_plan(document) else build(document)
    return Draft(document, model, tuple(faults))


def interfaces(drafts: Iterable[Draft]) -> dict[str, Interface]:
    """Return what each workflow shows to others; a faulty file keeps its interface."""
    found: dict[str, Interface] = {}
    for draft in drafts:
        if draft.model and draft.identity and not draft.is_plan:
            model = draft.model
            sketch = Sketch(model.inputs, model.fields.get("outputs", {}), model.sub_workflows)
            found.setdefault(draft.identity, sketch)
    return found


def neighbours(paths: Iterable[Path]) -> Iterator[Draft]:
    """The other files of the given files' folders. A plan's workflows stand one folder up, so that is looked at too."""
    given = {path.resolve() for path in paths}
    folders = dict.fromkeys(folder for path in sorted(given) for folder in _folders_of(path))
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if path.suffix in SUFFIXES and path not in given and path.is_file():
                with suppress(OSError):  # nobody asked for this one: it only stays unknown
                    yield draft_file(path, str(path))


def _folders_of(path: Path) -> tuple[Path, ...]:
    return (path.parent, path.parent.parent) if path.parent.name == "plans" else (path.parent,)


# --- laws ---


def ids_are_unique(drafts: Iterable[Draft]) -> Iterator[tuple[Draft, Fault]]:
    """No two files carry one id."""
    first: dict[tuple[bool, str], Draft] = {}
    for draft in drafts:
        if draft.identity is None:
            continue
        holder = first.setdefault((draft.is_plan, draft.identity), draft)
        if holder is not draft:
            key = "plan_id" if draft.is_plan else "workflow_id"
            message = f"{excerpt(draft.identity)} is the {key} of {holder.document.file} already"
            fault = draft.document.at_value((key,), "bad-workflow-id", message, "give each its own id")
            yield draft, fault


def each_submission_has_one_workflow(drafts: Iterable[Draft]) -> Iterator[tuple[Draft, Fault]]:
    """No two files accept the same (data_type, operation): told once, at the later one."""
    served: dict[tuple[str, str], Draft] = {}
    for draft in drafts:
        clashes = [pair for pair in _accepted(draft) if pair in served]
        served.update((pair, draft) for pair in _accepted(draft) if pair not in served)
        if clashes:
            pairs = ", ".join(f"({kind}, {operation})" for kind, operation in clashes)
            files = ", ".join(dict.fromkeys(served[pair].document.file for pair in clashes))
            message = f"{pairs} is accepted by {files} already"
            hint = "a submission must have one workflow: take the pair out of one of the two"
            yield draft, draft.document.at_key(("accepts",), "duplicate-accepts", message, hint)


def _accepted(draft: Draft) -> list[tuple[str, str]]:
    matrix: Mapping[str, Any] = draft.model.fields.get("accepts", {}) if draft.model else {}
    return list(dict.fromkeys(product(matrix.get("data_type", ()), matrix.get("operation", ()))))
