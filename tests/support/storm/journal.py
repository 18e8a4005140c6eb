"""What was asked of the platform, and what it must have come to: written down before it is asked."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Served = Literal["ouo", "public"]
Ending = Literal["completed", "failed", "cancelled"]


@dataclass
class Entry:
    """One submission. `wanted` are the endings that are right; `served` says by whom it may be read in the end."""

    story: str
    platform: str
    key: str
    wanted: tuple[Ending, ...] = ("completed",)
    request_id: str = ""
    ended: str = ""
    problem: str = ""
    asset_id: str = ""
    ordinal: int = 0
    revision: int = 0
    served: Served | None = None
    approval: str | None = None  # what it must be at the end, where a decision was taken
    deleted: bool = False


@dataclass
class Journal:
    """All of them, and what was wrong on the way."""

    entries: list[Entry] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    deeds: "Counter[str]" = field(default_factory=Counter)

    @property
    def accepted(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.request_id]

    @property
    def ended(self) -> list[Entry]:
        """Those that ended as they should."""
        return [entry for entry in self.accepted if entry.ended in entry.wanted]

    def wrong(self) -> list[str]:
        """Those that did not, and why."""
        return [
            f"{entry.story} {entry.request_id} should have {' or '.join(entry.wanted)}: "
            f"{entry.ended or 'did not end'} {entry.problem}"
            for entry in self.accepted
            if entry.ended not in entry.wanted
        ]
