"""Disks that are filled to the last byte, and freed again."""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

FILLER = "filler"
PIECES = (1 << 20, 1 << 12, 1)
TOP_UP_SECONDS = 0.2


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """Nothing more can be written there while the block runs: what others free is taken at once."""
    done = Event()
    filler = folder / FILLER

    def fill() -> None:
        with filler.open("ab", buffering=0) as file:
            while not done.is_set():
                _fill(file.fileno())
                time.sleep(TOP_UP_SECONDS)

    thread = Thread(target=fill, name="filling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        filler.unlink()


def _fill(handle: int) -> None:
    for piece in PIECES:
        try:
            while True:
                os.write(handle, bytes(piece))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
