"""The storage protocol and its kinds: what zones and run storage are made of. Knows nothing of Prefect or GDAL."""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from flows.errors import InvalidInput

_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._ +=@-]{0,199}")
_MAX_NAME = 900
_CHUNK_BYTES = 4 * 1024 * 1024
_PARTIAL = ".partial-"


def checked_name(name: str) -> str:
    """Return the name unchanged if it can only mean a blob below its store, else refuse it."""
    segments = name.split("/")
    if len(name) > _MAX_NAME or not all(_SEGMENT.fullmatch(segment) for segment in segments):
        raise InvalidInput(
            f"{name[:120]!r} is not a blob name. A name is container/path: letters, digits, '._ +=@-' and '/', "
            "no empty part and none that starts with a dot."
        )
    return name


class Store(Protocol):
    """One zone: blobs by name. Names are `container/path` and never leave the zone."""

    def readable_path(self, name: str) -> str:
        """A path or URL that a reader in this process can open now."""

    def size_bytes(self, name: str) -> int | None:
        """The blob's size, or None where there is no such blob."""

    def read_bytes(self, name: str) -> bytes: ...

    def chunks(self, name: str) -> Iterator[bytes]:
        """The blob's content in pieces that fit into memory."""

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write the whole blob or nothing."""

    def append(self, name: str, content: bytes) -> None:
        """Add to the blob's end, making it where there is none. One writer a blob; readers may see part of the last."""

    def put_file(self, name: str, source: Path) -> None:
        """Copy a local file in; readers see the whole blob or nothing."""

    def names(self, folder: str) -> list[str]:
        """The blobs directly in the folder, sorted; empty where there is no such folder."""

    def delete(self, name: str) -> None:
        """Remove the blob; a blob that is not there is no error."""

    def delete_below(self, folder: str) -> list[str]:
        """Remove all blobs whose names begin with this folder, half-written ones too; returns their names."""


@dataclass(frozen=True)
class LocalStore:
    """A zone in a local folder: the embedded default."""

    root: Path

    def _path(self, name: str) -> Path:
        path = self.root / checked_name(name)
        # A symlink inside the zone must not lead a partner's name out of it.
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise InvalidInput(f"{name!r} leads outside its storage zone.")
        return path

    def readable_path(self, name: str) -> str:
        path = self._path(name)
        if not path.is_file():
            raise InvalidInput(
                f"There is no blob {name!r}. Check container and path, and that the upload has finished."
            )
        return str(path)

    def size_bytes(self, name: str) -> int | None:
        path = self._path(name)
        return path.stat().st_size if path.is_file() else None

    def read_bytes(self, name: str) -> bytes:
        return Path(self.readable_path(name)).read_bytes()

    def chunks(self, name: str) -> Iterator[bytes]:
        with Path(self.readable_path(name)).open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk

    def write_bytes(self, name: str, content: bytes) -> None:
        temporary = self._temporary(name)
        temporary.write_bytes(content)
        temporary.replace(self._path(name))

    def append(self, name: str, content: bytes) -> None:
        path = self._path(name)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        with os.fdopen(handle, "ab", buffering=0) as blob:
            blob.write(content)

    def names(self, folder: str) -> list[str]:
        path = self._path(folder)
        if not path.is_dir():
            return []
        files = (entry.name for entry in os.scandir(path) if entry.is_file() and not entry.name.startswith("."))
        return [f"{folder}/{name}" for name in sorted(files)]

    def put_file(self, name: str, source: Path) -> None:
        temporary = self._temporary(name)
        shutil.copyfile(source, temporary)
        temporary.replace(self._path(name))

    def delete(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def delete_below(self, folder: str) -> list[str]:
        place = self._path(folder)
        files = [path for path in place.rglob("*") if path.is_file() and not path.name.startswith(_PARTIAL)]
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(place)
        return sorted(path.relative_to(self.root).as_posix() for path in files)

    def _temporary(self, name: str) -> Path:
        """A fresh file beside the blob's place, so that the final rename is atomic."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=_PARTIAL, dir=path.parent)
        os.close(handle)
        return Path(temporary)


@dataclass(frozen=True)
class Zones:
    """The places data lives in: as received, as processed, as exported, and what runs keep for themselves."""

    bronze: Store
    silver: Store
    external: Store
    runs: Store

    @classmethod
    def local(cls, root: Path) -> "Zones":
        """All zones as folders below one root."""
        return cls(*(LocalStore(root / zone) for zone in ("bronze", "silver", "external", "runs")))
