"""A folder for one try: made when first asked for, since most light handlers never do, and gone with the try.

The folder is locked by the process that owns the try. What a killed process left behind is nobody's, and the next
process that makes a folder removes it.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

PREFIX = "cairn-workdir-"
SURELY_LOCKED_SECONDS = 60.0


class Workdir:
    """The folder of one try, below the system's place for temporary files."""

    def __init__(self) -> None:
        self._making = Lock()
        self._made: tuple[Path, int] | None = None

    def path(self) -> Path:
        """The folder, made now if it was not asked for before."""
        with self._making:
            if self._made is None:
                sweep_once()
                self._made = _make()
            return self._made[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is not None:
            path, lock = self._made
            shutil.rmtree(path, ignore_errors=True)
            os.close(lock)


def _make() -> tuple[Path, int]:
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return path, lock


@cache
def sweep_once() -> None:
    """Remove what killed processes left; once in a process is enough."""
    sweep(time.time() - SURELY_LOCKED_SECONDS)


def sweep(made_before: float) -> None:
    """Remove folders that nobody holds. A very young one may be between its making and its locking."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, or somebody swept it first
            if path.stat().st_mtime < made_before:
                _remove_if_free(path)


def _remove_if_free(path: Path) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
