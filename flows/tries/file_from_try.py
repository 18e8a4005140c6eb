"""An open file that a GDAL try's process handed over, read through that very descriptor.

The try may be taken over, and what it hands over is its claim. The file is never opened again: to open it here would be
to open it with our rights, where the try may have had none to read it. The descriptor must be good for what it is used
for, and the file must be one of the try's own: a plain file on the disk of its folder, under no second name. Knows
nothing of zones.
"""

import fcntl
import io
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flows.handlers.errors import StorageForbidden

READABLE: Final = frozenset({os.O_RDONLY, os.O_RDWR})


@dataclass(frozen=True)
class Bounds:
    """Which files are taken from a try: of this device, and no larger than this."""

    device: int
    most_bytes: int

    @classmethod
    def of(cls, workdir: Path, most_bytes: int) -> "Bounds":
        """The bounds of the try that works here. A file in it tells the device: on some disks the folder does not."""
        with tempfile.TemporaryFile(dir=workdir) as file:
            return cls(os.fstat(file.fileno()).st_dev, most_bytes)


class HandedFile(io.RawIOBase):
    """What the file held when it came, as a stream from its beginning. Where it changes meanwhile, reading ends."""

    def __init__(self, file: int | None, bounds: Bounds) -> None:
        super().__init__()
        self._file, self.size = _judged(file, bounds)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = min(max(start + offset, 0), self.size)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        """As much as was asked for, as far as there is so much. Nobody reads all of it at once."""
        left = self.size - self._at
        if left and (size is None or size < 0):
            raise io.UnsupportedOperation("Read it in pieces: how large it is, the try decides.")
        pieces, missing = [], min(size or 0, left)
        while missing:
            piece = os.pread(self._file, missing, self._at)
            if not piece or os.fstat(self._file).st_size != self.size:
                raise StorageForbidden("A file that is handed over must not change until it is stored.")
            pieces.append(piece)
            self._at += len(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        piece = self.read(len(view))
        view[: len(piece)] = piece
        return len(piece)


def _judged(file: int | None, bounds: Bounds) -> tuple[int, int]:
    """The descriptor and the file's size, if it is one that a try may hand over."""
    if file is None:
        raise StorageForbidden("Content goes through a file.")
    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    if flags & os.O_PATH or flags & os.O_ACCMODE not in READABLE:
        raise StorageForbidden("Content goes through a file that the try itself has opened for it.")
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        raise StorageForbidden("Content goes through a file.")
    if (found.st_dev, found.st_uid) != (bounds.device, os.geteuid()) or found.st_nlink > 1:
        raise StorageForbidden("Content goes through a file of the try's own folder.")
    if found.st_size > bounds.most_bytes:
        raise StorageForbidden(f"A file of {found.st_size:,} bytes is not taken: {bounds.most_bytes:,} are the most.")
    return file, found.st_size
