"""Tells to which row a file of a zone belongs, by the file's name alone. Pure.

All names are generated but those of sources in bronze, which whoever uploads chooses. A file whose owner has no row is
of no use to anybody: its rows were lost, as where an older copy of the database was restored, or never written.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from domain.rules import places
from domain.rules.places import QUARANTINE
from flows.storage.protocol import is_partial

PARTIAL_SECONDS: Final = 86_400.0  # longer than a file is written


class OwnerKind(StrEnum):
    """The kinds of rows that own files."""

    REVISION = "revision"
    RUN = "run"
    EXPORT = "export"


@dataclass(frozen=True)
class Owner:
    """The row: a revision as `asset/ordinal-rN`, a run by its id, an export by its destination."""

    kind: OwnerKind
    key: str


def owner(zone: str, name: str) -> Owner | None:
    """Return the row that the file's name points to; None where it points to none, as for uploads."""
    if zone == "external":
        return _found(OwnerKind.EXPORT, places.copies_of(name))
    if zone == "bronze" and not name.startswith(QUARANTINE):
        return None
    own = name.removeprefix(QUARANTINE) if zone == "bronze" else name
    made = _found(OwnerKind.REVISION, places.revision_of(own)) or _found(OwnerKind.RUN, places.run_of(own))
    if made or zone != "runs":
        return made
    return _found(OwnerKind.EXPORT, places.noted_copies_of(name)) or _found(OwnerKind.RUN, places.rememberer_of(name))


def why_unowned(zone: str, name: str, age_seconds: float) -> str | None:
    """Return why a file that belongs to no row should not lie there; None where it may."""
    if is_partial(name):
        return "half-written, and its writer is gone" if age_seconds >= PARTIAL_SECONDS else None
    is_source = zone == "bronze" and not name.startswith(QUARANTINE)
    return None if is_source else "no file of ours is called so"


def _found(kind: OwnerKind, key: str | None) -> Owner | None:
    return Owner(kind, key) if key else None
