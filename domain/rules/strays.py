"""To whom a file of a zone belongs, by its name alone. Pure.

All names are generated but those of sources in bronze, which whoever uploads chooses. A file whose owner has no row is
of no use to anybody: its rows were lost, as where an older copy of the database was restored, or never written.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from domain.rules.leftovers import QUARANTINE, is_partial

_RUN: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_REVISION: Final = re.compile(r"assets/([0-9a-f]{32}/[0-9]{1,9}-r[0-9]{1,9})/a[0-9]+/.")
_OF_RUN: Final = re.compile(rf"runs/({_RUN})/a[0-9]+/.")
_MEMORY: Final = re.compile(rf"(?:trials/)?({_RUN})/.")
_MARK: Final = re.compile(r"(?:withdrawn|pipeline-runs)/([0-9a-f]{32}/[0-9]{1,9}-r[0-9]{1,9}/[0-9a-f]{32})")
_COPY: Final = re.compile(r"([0-9a-f]{32}/[0-9]{1,9}-r[0-9]{1,9}/[0-9a-f]{32})/.")
PARTIAL_SECONDS: Final = 86_400.0  # longer than a file is written


class OwnerKind(StrEnum):
    """What sort of row owns files."""

    REVISION = "revision"
    RUN = "run"
    EXPORT = "export"


@dataclass(frozen=True)
class Owner:
    """The row: a revision as `asset/ordinal-rN`, a run by its id, an export by its destination."""

    kind: OwnerKind
    key: str


def owner(zone: str, name: str) -> Owner | None:
    """Whose the file is, as its name says; None where such names belong to nobody, or to who uploads."""
    if zone == "external":
        return _found(OwnerKind.EXPORT, _COPY, name)
    if zone == "bronze" and not name.startswith(QUARANTINE):
        return None
    own = name.removeprefix(QUARANTINE) if zone == "bronze" else name
    made = _found(OwnerKind.REVISION, _REVISION, own) or _found(OwnerKind.RUN, _OF_RUN, own)
    if made or zone != "runs":
        return made
    mark = _MARK.fullmatch(name)
    return Owner(OwnerKind.EXPORT, mark[1]) if mark else _found(OwnerKind.RUN, _MEMORY, name)


def why_unowned(zone: str, name: str, age_seconds: float) -> str | None:
    """Why a file should not lie there that nobody's name is on; None where it may."""
    if is_partial(name):
        return "half-written, and its writer is gone" if age_seconds >= PARTIAL_SECONDS else None
    is_source = zone == "bronze" and not name.startswith(QUARANTINE)
    return None if is_source else "no file of ours is called so"


def _found(kind: OwnerKind, pattern: re.Pattern[str], name: str) -> Owner | None:
    match = pattern.match(name)
    return Owner(kind, match[1]) if match else None
