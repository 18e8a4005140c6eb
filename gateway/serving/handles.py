"""Open rasters, kept for the next reader: opening one costs as much as reading a tile from it.

A handle is lent to one reader at a time, for GDAL's are not for several. What a handle shows never changes: it is known
by the names of its files, which are written once. Whether somebody may read them was asked before.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from rasterio.errors import RasterioError
from rasterio.io import DatasetReader


@dataclass(frozen=True)
class _Idle:
    name: Hashable
    dataset: DatasetReader
    opened_at: float


class Handles:
    """Keeps a bounded number of idle handles for a bounded time, because signed URLs end."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._idle: deque[_Idle] = deque()
        self._turn = threading.Lock()
        self.hits = self.misses = 0  # lent again, and opened

    @contextmanager
    def lent(self, name: Hashable, opened: Callable[[], DatasetReader]) -> Iterator[DatasetReader]:
        """Lend a handle of this name during the block. One that failed its reader is not lent again."""
        handle = self._take_idle(name) or _Idle(name, opened(), self._clock())
        try:
            yield handle.dataset
        except BaseException:
            _close(handle)
            raise
        self._put_back(handle)

    def close(self) -> None:
        """Close all idle handles."""
        with self._turn:
            idle, self._idle = list(self._idle), deque()
        for handle in idle:
            _close(handle)

    def _take_idle(self, name: Hashable) -> _Idle | None:
        with self._turn:
            found = next((handle for handle in self._idle if handle.name == name and self._is_young(handle)), None)
            if found is not None:
                self._idle.remove(found)
            self.hits, self.misses = self.hits + (found is not None), self.misses + (found is None)
        return found

    def _put_back(self, handle: _Idle) -> None:
        with self._turn:
            self._idle.append(handle)
            old = [handle for handle in self._idle if not self._is_young(handle)]
            for each in old:
                self._idle.remove(each)
            while len(self._idle) > self._most:
                old.append(self._idle.popleft())
        for each in old:
            _close(each)

    def _is_young(self, handle: _Idle) -> bool:
        return self._clock() - handle.opened_at < self._seconds


def _close(handle: _Idle) -> None:
    with suppress(RasterioError):
        handle.dataset.close()
