"""An open blob, read wherever one likes: a file by its descriptor, or what lies elsewhere by ranges."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from types import TracebackType
from typing import Protocol, Self

from flows.handlers.errors import SourceChanged
from flows.storage.protocol import CHUNK_BYTES, RangeStore


class Reader(Protocol):
    """An open blob. Several threads may read at once."""

    @property
    def size_bytes(self) -> int: ...

    @property
    def version(self) -> str:
        """A text that changes once the blob was replaced or written to since it was opened."""

    @property
    def descriptor(self) -> int | None:
        """The open file that holds the blob; None where it is no file of this machine."""

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes there; fewer, or none, where the blob ends before."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Closing:
    """Closes itself at the end of a block."""

    def close(self) -> None:
        """Do nothing: nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class FileReader(Closing):
    """A blob that is a file. The open file stays the same, whatever becomes of its name meanwhile.

    Our stores give a name a new file. Whoever else writes into this one while it is read has its readers fail.
    """

    descriptor: int
    size_bytes: int = field(init=False)
    version: str = field(init=False)
    _closing: Lock = field(default_factory=Lock)
    _closed: bool = False

    def __post_init__(self) -> None:
        self.size_bytes, self.version = os.fstat(self.descriptor).st_size, self._version_now()

    def _version_now(self) -> str:
        found = os.fstat(self.descriptor)
        return f"{found.st_dev}-{found.st_ino}-{found.st_size}-{found.st_mtime_ns}"

    def read(self, start: int, length: int) -> bytes:
        length = min(length, self.size_bytes - start)
        pieces = []
        while length > 0 and (piece := os.pread(self.descriptor, length, start)):
            pieces.append(piece)
            start, length = start + len(piece), length - len(piece)
        if pieces and self._version_now() != self.version:
            raise SourceChanged
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        with self._closing, suppress(OSError):
            if not self._closed:
                self._closed = True
                os.close(self.descriptor)


@dataclass(frozen=True)
class RangeReader(Closing):
    """A blob that its store gives by ranges."""

    store: RangeStore
    name: str
    size_bytes: int
    version: str = ""  # as far as the store tells; its ranges are then of this version alone
    descriptor: None = None

    def read(self, start: int, length: int) -> bytes:
        length = min(length, self.size_bytes - start)
        return self.store.read_range(self.name, start, length) if length > 0 else b""


def chunks(reader: Reader) -> Iterator[bytes]:
    """Yield the whole blob in pieces that fit into memory."""
    at = 0
    while piece := reader.read(at, CHUNK_BYTES):
        yield piece
        at += len(piece)
