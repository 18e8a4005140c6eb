"""A blob by its pieces, as a reader of headers wants them: many, small and close together. Knows storage, no GDAL."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from flows.storage import Store

AHEAD_BYTES: Final = 256 * 1024


@dataclass
class Pieces:
    """One blob. What was fetched last is kept, so that a store far away is asked few times."""

    store: Store
    name: str
    _at: int = 0
    _kept: bytes = field(default=b"", repr=False)

    @cached_property
    def size_bytes(self) -> int:
        return self.store.size_bytes(self.name) or 0

    def read(self, at: int, length: int) -> bytes:
        """The bytes there; less of them where the blob ends before."""
        if not self._at <= at <= at + length <= self._at + len(self._kept):
            self._at, self._kept = at, self.store.read_range(self.name, at, max(length, AHEAD_BYTES))
        return self._kept[at - self._at :][:length]
