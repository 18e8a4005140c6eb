"""Gives GDAL one open blob as a file, and no other: whatever else it asks for by name is not there. Imports rasterio.

GDAL calls these from its own code, which no exception passes through: what fails is noted on the blob's pieces, and
whoever opened the raster raises it.
"""

import os
from typing import Final, Self

from rasterio.abc import FileContainer, MultiByteRangeResourceContainer

from flows.handlers.errors import Transient
from flows.handlers.raster.pieces import Pieces

NAME: Final = "source.tif"


class BlobFile:
    """The blob as an open file, read from where it was sought last."""

    def __init__(self, source: Pieces) -> None:
        self._source, self._at = source, 0

    def read(self, size: int) -> bytes:
        content = b""
        if self._source.fault is None:
            try:
                content = self._source.read(self._at, size)
            except Exception as error:  # noqa: BLE001 - raised by whoever opened the raster
                self._source.fault = error
        self._at += len(content)
        return content

    def get_byte_ranges(self, offsets: list[int], sizes: list[int]) -> list[bytes]:
        """Several ranges. Each answer is as long as was asked for, because GDAL uses all of it."""
        found: list[bytes] = []
        if self._source.fault is None:
            try:
                found = self._source.ranges(list(zip(offsets, sizes, strict=True)))
            except Exception as error:  # noqa: BLE001 - as above
                self._source.fault = error
        if self._source.fault is None and [len(each) for each in found] != sizes:
            self._source.fault = Transient("The blob became shorter while it was read.")
        return found if self._source.fault is None else [bytes(size) for size in sizes]

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._source.size_bytes}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: whoever opened the blob closes it."""


class OneFile(FileContainer):  # type: ignore[misc]
    """A folder that holds one blob, as rasterio's openers are asked."""

    def __init__(self, source: Pieces) -> None:
        self._source = source

    def open(self, path: str, mode: str = "r", **_: object) -> BlobFile:
        if path != NAME or set(mode) - {"r", "b"}:
            raise FileNotFoundError(path)
        return BlobFile(self._source)

    def isfile(self, path: str) -> bool:
        return path == NAME

    def isdir(self, path: str) -> bool:
        return False

    def ls(self, path: str) -> list[str]:
        return []

    def mtime(self, path: str) -> int:
        return 0

    def rm(self, path: str) -> None:
        raise PermissionError(path)

    def size(self, path: str) -> int:
        if path != NAME:
            raise FileNotFoundError(path)
        return self._source.size_bytes


class OneFarFile(OneFile, MultiByteRangeResourceContainer):  # type: ignore[misc]
    """A folder with one remote blob, of which GDAL names all ranges that it needs at once."""


def alone(source: Pieces) -> OneFile:
    """Return the folder in which GDAL finds the blob under NAME."""
    return OneFarFile(source) if source.is_far else OneFile(source)
