"""What is done once a transaction has committed, noted while it is open. Of one that is rolled back nothing is done."""

from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

KEY = "after commit"


@dataclass
class AfterCommit:
    """Whom a commit concerns, by what they wait for; and how the failpoints around it are called."""

    failpoint: str = ""
    has_work: bool = False  # attempts that relays may send
    fenced: set[UUID] = field(default_factory=set)  # runs whose attempts are over: who works for them should stop
    changed: set[UUID] = field(default_factory=set)  # requests with another status
    children: set[UUID] = field(default_factory=set)  # runs whose child runs have told something

    def __bool__(self) -> bool:
        """Whether there is anybody to be told."""
        return bool(self.has_work or self.fenced or self.changed or self.children)

    def add(self, more: "AfterCommit") -> None:
        """What concerns others of another commit too."""
        self.has_work |= more.has_work
        self.fenced |= more.fenced
        self.changed |= more.changed
        self.children |= more.children


def after_commit(session: AsyncSession) -> AfterCommit:
    """What is noted of the session's transaction."""
    noted: AfterCommit = session.info.setdefault(KEY, AfterCommit())
    return noted
