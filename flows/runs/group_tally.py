"""How the items ended that share a task run, and what that task run says of them. Pure; knows nothing of Prefect."""

from dataclasses import dataclass, field
from typing import Literal

from flows.compiler import Item, NodeOutcome, State

LONGEST_KEY = 100
SHOWN_FAILURES = 3
SHOWN_ROWS = 200
SHOWN_ERROR = 300
Kind = Literal["COMPLETED", "FAILED", "CANCELLED"]  # what gives a task run its colour


@dataclass(frozen=True)
class TaskRunEnd:
    """The state in which a task run ends."""

    kind: Kind
    name: str
    message: str


@dataclass
class GroupTally:
    """Counts how the items of one group end."""

    total: int
    completed: int = 0
    remembered: int = 0
    failed: int = 0
    retries: int = 0
    first_failures: list[str] = field(default_factory=list)

    def add(self, item: Item, outcome: NodeOutcome, tries: int) -> None:
        """Count an item that has ended, without a try if it was done before. One that was cut short has not ended."""
        self.remembered += tries == 0
        self.retries += max(tries - 1, 0)
        if outcome.state is State.COMPLETED:
            self.completed += 1
        elif outcome.state is State.FAILED:
            self.failed += 1
            if len(self.first_failures) < SHOWN_FAILURES:
                said = outcome.error.message[:SHOWN_ERROR] if outcome.error else "failed"
                self.first_failures.append(f"{item.index}{shown_key(item.index, item.key)}: {said}")

    def end(self, *, is_tolerable: bool) -> TaskRunEnd:
        """The end of the group's task run, where as many items as the fan-out tolerates have failed, or more."""
        if self.failed:
            kind: Kind = "COMPLETED" if is_tolerable else "FAILED"
            return TaskRunEnd(kind, "CompletedWithFailures" if is_tolerable else "Failed", self.message)
        if self.completed < self.total:
            return TaskRunEnd("CANCELLED", "Cancelled", self.message)
        return TaskRunEnd("COMPLETED", "Cached" if self.remembered == self.total else "Completed", self.message)

    @property
    def message(self) -> str:
        left = self.total - self.completed - self.failed
        counts = [(self.failed, "failed"), (left, "not begun or cut short"), (self.remembered, "done before")]
        told = [f"{self.total} items", *(f"{count} {what}" for count, what in counts if count)]
        told += [f"{self.retries} {'retry' if self.retries == 1 else 'retries'}"] if self.retries else []
        return "; ".join([", ".join(told), *self.first_failures])


@dataclass(frozen=True)
class FailedItem:
    """One failed item as a table shows it."""

    index: int
    key: str
    tries: int
    error: str


@dataclass
class FailedItems:
    """The failed items of a fan-out that operators are shown: the first that failed, for thousands tell no more."""

    rows: list[FailedItem] = field(default_factory=list)

    def add(self, item: Item, outcome: NodeOutcome, tries: int) -> None:
        self.note(item.index, item.key, tries, outcome.error.message if outcome.error else "failed")

    def note(self, index: int, key: str, tries: int, error: str) -> None:
        if len(self.rows) < SHOWN_ROWS:
            self.rows.append(FailedItem(index, key[:LONGEST_KEY], tries, error[:SHOWN_ERROR]))


def shown_key(index: int, key: str) -> str:
    """An item's key as it stands beside its number; nothing where it is its number."""
    return "" if key == str(index) else f" key {key[:LONGEST_KEY]!r}"
