"""Laws of a file's identity."""

import re
from collections.abc import Iterator
from pathlib import PurePath

from flows.compiler.checks.subject import Subject
from flows.compiler.faults import Fault, excerpt
from flows.compiler.source import Document

_ID = re.compile(r"[a-z][a-z0-9_]{0,62}")


def id_is_well_formed(subject: Subject) -> Iterator[Fault]:
    """workflow_id (of a plan: plan_id) is lower snake case and equals the file's stem."""
    for key in ("workflow_id", "plan_id"):
        if key in subject.model.fields:
            yield from _identity_faults(subject.model.document, key, subject.model.fields[key])


def _identity_faults(document: Document, key: str, given: str) -> Iterator[Fault]:
    """The faults of an id. Text that came from no .yaml file has no stem to equal."""
    file = PurePath(document.file)
    if not _ID.fullmatch(given):
        message = f"{excerpt(given)} is not a {key}"
        hint = "lower-case letters, digits and _, a letter first, at most 63 in all"
        yield document.at_value((key,), "bad-workflow-id", message, hint)
    elif file.suffix in (".yaml", ".yml") and file.stem != given:
        message = f"{key} {excerpt(given)} differs from the file's name {file.name!r}"
        hint = f"write {file.stem}, or rename the file to {given}{file.suffix}"
        yield document.at_value((key,), "bad-workflow-id", message, hint)
