"""Whether files are still what their run's commit recorded. They are read here, outside every transaction.

A large file takes long. It is read piece by piece, in a few threads that only do this, and whoever asked waits for a
while only: the reading goes on without them, and its outcome is remembered until the file is written again.
"""

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Final, TypeVar

from cachetools import LRUCache

from domain.errors import ContentDiffers, FilesBeingRead, StorageUnavailable
from domain.services.reading import lost, storage_answers
from domain.shared.together import together
from flows.storage import StampedStore

log = logging.getLogger("cairn.file_checks")
Result = TypeVar("Result")
THREADS: Final = 8
OF_ONE_DECISION: Final = 4  # so that the files of one decision leave room for those of others
REMEMBERED: Final = 100_000
AGAIN_SECONDS: Final = 5


@dataclass(frozen=True)
class Committed:
    """A file of the silver zone, as its run's commit recorded it."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class SeenFile:
    """What a file was when it was read. `stamp` changes whenever the file is written."""

    stamp: str
    is_same: bool


class FileChecks:
    """The checks of one process."""

    def __init__(self, silver: StampedStore, wait_seconds: float) -> None:
        self._silver, self._wait_seconds = silver, wait_seconds
        self._threads = ThreadPoolExecutor(THREADS, "file-check")
        self._under_way: dict[frozenset[Committed], asyncio.Task[None]] = {}
        self._seen: LRUCache[Committed, SeenFile] = LRUCache(REMEMBERED)
        self._closing = Event()

    async def check(self, files: Collection[Committed]) -> None:
        """Return once all these files equal what was committed; refuse one that differs, or say that it takes long.

        Asked again about the same files, it waits for the reading that is under way.
        """
        key = frozenset(files)
        task = self._under_way.get(key) or self._begin(key)
        ended, _ = await asyncio.wait([task], timeout=self._wait_seconds)
        if not ended:
            raise FilesBeingRead(
                "The files of this revision are being read, to see that they are what was made. That takes a while. "
                "Nothing was changed: ask for the same again.",
                retry_after_seconds=AGAIN_SECONDS,
            )
        task.result()

    async def content(self, file: Committed) -> bytes:
        """The whole of a small file, if it is what was committed."""
        return await self._threaded(lambda: self._content(file))

    def close(self) -> None:
        """Abandon the checks under way: nobody waits for them any more."""
        self._closing.set()
        for task in self._under_way.values():
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _begin(self, files: frozenset[Committed]) -> asyncio.Task[None]:
        task = self._under_way[files] = asyncio.create_task(self._check_all(files))
        task.add_done_callback(lambda ended: self._ended(files, ended))
        return task

    def _ended(self, files: frozenset[Committed], task: asyncio.Task[None]) -> None:
        """Note the end of a check, which nobody may await: files that differ are remembered."""
        del self._under_way[files]
        if not task.cancelled():
            task.exception()

    async def _check_all(self, files: Collection[Committed]) -> None:
        left = deque(sorted(files, key=lambda file: file.size_bytes))

        async def work() -> None:
            while left:
                await self._check(left.popleft())

        try:
            await together(*(work() for _ in range(OF_ONE_DECISION)))
        finally:
            left.clear()  # where one differs, nobody needs to know of the others

    async def _check(self, file: Committed) -> None:
        known = self._seen.get(file)
        seen = self._seen[file] = await self._threaded(lambda: self._look(file, known))
        if not seen.is_same:
            raise differs(file)

    async def _threaded(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _look(self, file: Committed, known: SeenFile | None) -> SeenFile:
        """Return what the file is now, unread where nobody has written it since."""
        with storage_answers():
            stamp = self._silver.stamp(file.name)
            if stamp is None:
                raise lost()
            if known is not None and known.stamp == stamp:
                return known
            return SeenFile(stamp, self._is_same(file))

    def _is_same(self, file: Committed) -> bool:
        if self._silver.size_bytes(file.name) != file.size_bytes:
            return False
        digest, size = hashlib.sha256(), 0
        for piece in self._silver.chunks(file.name):
            if self._closing.is_set():
                raise StorageUnavailable("This process ends. Ask again in a moment.")
            digest.update(piece)
            size += len(piece)
            if size > file.size_bytes:
                return False
        return digest.hexdigest() == file.sha256

    def _content(self, file: Committed) -> bytes:
        with storage_answers():
            content, size = [], 0
            for piece in self._silver.chunks(file.name):
                content.append(piece)
                size += len(piece)
                if size > file.size_bytes:
                    raise differs(file)
        whole = b"".join(content)
        if hashlib.sha256(whole).hexdigest() != file.sha256:
            raise differs(file)
        return whole


def differs(file: Committed) -> ContentDiffers:
    """Return the refusal of a changed file. Its name is for operators, and not for reviewers."""
    log.error("a file is not what its run committed", extra={"blob": file.name, "committed": file.sha256})
    return ContentDiffers(
        "A file of it is not what its run handed in: it was changed since. Nothing was published. Have operators look "
        "into it, then have it submitted again."
    )
