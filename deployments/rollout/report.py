"""What a rollout did, thing by thing: for people a line each, for programs an object each. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Difference(StrEnum):
    """How the server stood to what we want of it."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    LEFT_OVER = "left over"
    REMOVED = "removed"


@dataclass(frozen=True)
class Change:
    """One thing of Prefect's, and what was done to it."""

    verdict: Difference
    kind: str
    name: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.verdict:<10} {self.kind} {self.name}" + (f" ({self.detail})" if self.detail else "")

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict.value}


def differing(wanted: Mapping[str, Any], found: Any) -> list[str]:
    """The fields that are not as we want them. Tags have no order."""
    return [name for name, value in wanted.items() if _plain(value) != _plain(getattr(found, name))]


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) and all(isinstance(one, str) for one in value) else value


def summary(changes: Sequence[Change]) -> str:
    counts = Counter(change.verdict for change in changes)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in Difference if counts[verdict])
