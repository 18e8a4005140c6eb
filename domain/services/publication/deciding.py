"""Decisions that need to read files: the files are read between two transactions, never within one.

A transaction that needs a file which was not read yet raises `Unread` and is rolled back; the file is read with nothing
locked and no connection held, and the transaction begins anew. It decides by what it then finds, whatever changed.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Final, TypeVar

from sqlalchemy.ext.asyncio import AsyncSession

from domain.db import Database
from domain.errors import ChangedMeanwhile, ContentDiffers, NotPublishable, Unstored
from domain.services.publication.file_checks import Committed, FileChecks

Result = TypeVar("Result")
MOST_LOOKS: Final = 6  # an approval takes two or three: one for each time that it comes upon files
LARGEST_STAGED: Final = 512 * 2**20  # of what is read whole: a hundred thousand items take a third of it


class Unread(Exception):
    """The files that a decision still needs: some to be checked, some to be read whole."""

    def __init__(self, checked: Collection[Committed] = (), whole: Collection[Committed] = ()) -> None:
        super().__init__("files are to be read first")
        self.checked, self.whole = checked, whole


@dataclass(frozen=True)
class FilesRead:
    """What one decision has read so far."""

    checks: FileChecks
    _checked: set[Committed] = field(default_factory=set)
    _whole: dict[Committed, bytes | ContentDiffers | Unstored] = field(default_factory=dict)

    def require(self, checked: Collection[Committed], whole: Collection[Committed]) -> None:
        """Go on only once these files are checked against their commit, and those are read."""
        unchecked = [file for file in checked if file not in self._checked]
        unread = [file for file in whole if file not in self._whole]
        if unchecked or unread:
            raise Unread(unchecked, unread)

    def content(self, file: Committed) -> bytes:
        """What the file holds; refused where it is not what was committed."""
        self.require((), (file,))
        found = self._whole[file]
        if isinstance(found, bytes):
            return found
        raise found

    def content_if_sound(self, file: Committed) -> bytes | None:
        """Return the file's content, or None where it is not what was committed."""
        self.require((), (file,))
        found = self._whole[file]
        return found if isinstance(found, bytes) else None

    async def read(self, unread: Unread) -> None:
        """Read the missing files. No transaction may be open."""
        for file in unread.whole:
            if file.size_bytes > LARGEST_STAGED:
                raise NotPublishable(f"What is staged of it is larger than the {LARGEST_STAGED:,} bytes that are read.")
            try:
                self._whole[file] = await self.checks.content(file)
            except (ContentDiffers, Unstored) as refusal:
                self._whole[file] = refusal
        if unread.checked:
            await self.checks.check(unread.checked)
            self._checked.update(unread.checked)


async def decided(
    database: Database, checks: FileChecks, act: Callable[[AsyncSession, FilesRead], Awaitable[Result]]
) -> Result:
    """Carry the act out in one transaction in which no file is read; needed files are read before another try."""
    files = FilesRead(checks)
    for _ in range(MOST_LOOKS):
        try:
            async with database.transaction() as session:
                return await act(session, files)
        except Unread as unread:
            await files.read(unread)
    raise ChangedMeanwhile("What is stored of it changes while it is read. Ask again in a moment.")
