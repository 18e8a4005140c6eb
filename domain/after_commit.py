"""Notes what a transaction has others told after its commit. A rollback drops the notes."""

from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

KEY = "after commit"


@dataclass
class AfterCommit:
    """Notes whom a commit concerns, by what they wait for, and how the failpoints around it are called."""

    failpoint: str = ""
    has_work: bool = False  # attempts that relays may send
    fenced: set[UUID] = field(default_factory=set)  # runs whose attempts are over: who works for them should stop
    changed: set[UUID] = field(default_factory=set)  # requests with another status
    children: set[UUID] = field(default_factory=set)  # runs whose child runs have told something
    sent: set[str] = field(default_factory=set)  # pools that flow runs were made for: their workers look at once

    def __bool__(self) -> bool:
        """Whether there is anybody to be told."""
        return bool(self.has_work or self.fenced or self.changed or self.children or self.sent)

    def add(self, more: "AfterCommit") -> None:
        """Add the notes of another transaction that commits with this one."""
        self.has_work |= more.has_work
        self.fenced |= more.fenced
        self.changed |= more.changed
        self.children |= more.children
        self.sent |= more.sent


def after_commit(session: AsyncSession) -> AfterCommit:
    """Return the notes of the session's transaction."""
    noted: AfterCommit = session.info.setdefault(KEY, AfterCommit())
    return noted
