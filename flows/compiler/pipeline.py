"""The whole compiler in one place: text → document → model → laws → Plan. One file, or many that know each other."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from flows.compiler.checks import LAWS, PLAN_LAWS, check
from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault, by_place
from flows.compiler.interfaces import Interface
from flows.compiler.lower import lower, lower_plan
from flows.compiler.neighbours import (
    Draft,
    draft_file,
    draft_text,
    each_submission_has_one_workflow,
    ids_are_unique,
    interfaces,
    neighbours,
)
from flows.compiler.plan import Plan
from flows.compiler.request_plan import RequestPlan
from flows.handlers.registry import AnyHandler

Handlers = Mapping[str, AnyHandler]


@dataclass(frozen=True)
class Compilation:
    """What became of one file: faults, or a plan: `plan` of a workflow, `request_plan` of a file under plans/."""

    file: str
    text: str
    plan: Plan | None
    faults: tuple[Fault, ...]
    request_plan: RequestPlan | None = None


def compile_text(
    text: str, file: str, handlers: Handlers, siblings: Mapping[str, Interface] = MappingProxyType({})
) -> Compilation:
    """Compile one file. `siblings` are the workflows that it may run, by id."""
    draft = draft_text(text, file)
    return _compile(draft, handlers, {**siblings, **interfaces([draft])}, [])


def compile_files(paths: Iterable[str | Path], handlers: Handlers) -> list[Compilation]:
    """Compile files that know each other, one answer per file in the order given. Raises OSError for an unreadable one.

    A sub-workflow is looked up among these files, then among the others in their folders.
    """
    written = [str(path) for path in paths]
    drafts = [draft_file(Path(path), path) for path in written]
    needs_more = any(draft.model and draft.model.sub_workflows for draft in drafts)
    around = list(neighbours(map(Path, written))) if needs_more else []
    siblings = interfaces([*drafts, *around])
    between = [*ids_are_unique(drafts), *each_submission_has_one_workflow(drafts)]
    return [_compile(draft, handlers, siblings, [fault for at, fault in between if at is draft]) for draft in drafts]


def _compile(draft: Draft, handlers: Handlers, siblings: Mapping[str, Interface], between: list[Fault]) -> Compilation:
    document = draft.document
    if draft.model is None:
        return Compilation(document.file, document.text, None, tuple(document.faults))
    subject = Subject(draft.model, handlers, siblings)
    found = [*document.faults, *draft.shape_faults, *check(subject, PLAN_LAWS if draft.is_plan else LAWS), *between]
    faults = tuple(sorted(dict.fromkeys(found), key=by_place))
    plan = None if faults or draft.is_plan else lower(subject)
    request_plan = lower_plan(subject) if draft.is_plan and not faults else None
    return Compilation(document.file, document.text, plan, faults, request_plan)
