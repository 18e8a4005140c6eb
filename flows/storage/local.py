"""A zone in a local folder: the embedded default.

A blob that was written whole survives a power cut: the database keeps what it is by its checksum, so its content and
its name are on the disk before the call returns. What is appended may be lost with the power, and is then done again.
"""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from flows.handlers.errors import InvalidInput
from flows.storage.off_loop import off_the_loop
from flows.storage.protocol import CHUNK_BYTES, PARTIAL, Check, ListedBlob, Store, Stream, checked_name, go_on, missing
from flows.storage.readers import FileReader

_MAKINGS = 100  # of a folder that somebody removes because it is empty
Made = TypeVar("Made")
# Even a slow disk takes so much in a fraction of the two seconds in which a stop is heard.
PIECE_BYTES = 8 * 1024 * 1024
TICK_NS = 2_000_000_000


@off_the_loop
@dataclass(frozen=True)
class LocalStore:
    """Blobs as files below one folder."""

    root: Path

    def _path(self, name: str) -> Path:
        # A symlink must lead no name anywhere else: out of the zone, or to what lies in it under another's name.
        if (self.root / checked_name(name)).resolve() != self.root.resolve() / name:
            raise InvalidInput(f"{name!r} leads to another place than its own.")
        return self.root / name

    def readable_path(self, name: str) -> str:
        path = self._path(name)
        if not path.is_file():
            raise missing(name)
        return str(path)

    def reader(self, name: str) -> FileReader:
        return FileReader(os.open(self.readable_path(name), os.O_RDONLY | os.O_CLOEXEC))

    def size_bytes(self, name: str) -> int | None:
        path = self._path(name)
        return path.stat().st_size if path.is_file() else None

    def stamp(self, name: str) -> str | None:
        """By the time of its last change, which nobody can set. Clocks of file systems tick slowly: what was written
        just now may be written again under the same time, so its stamp is no other's.
        """
        path = self._path(name)
        if not path.is_file():
            return None
        found = path.stat()
        is_fresh = time.time_ns() - found.st_ctime_ns < TICK_NS
        return f"{found.st_ino}-{found.st_size}-{found.st_ctime_ns}{f'-{uuid4()}' if is_fresh else ''}"

    def read_bytes(self, name: str) -> bytes:
        return Path(self.readable_path(name)).read_bytes()

    def read_range(self, name: str, start: int, length: int) -> bytes:
        with Path(self.readable_path(name)).open("rb") as file:
            file.seek(start)
            return file.read(length)

    def chunks(self, name: str) -> Iterator[bytes]:
        with Path(self.readable_path(name)).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def write_bytes(self, name: str, content: bytes) -> None:
        with self._new_file(name) as temporary:
            temporary.write_bytes(content)

    def write_new(self, name: str, content: bytes) -> bool:
        path = self._path(name)
        handle, temporary = _in_folder(path.parent, lambda: tempfile.mkstemp(prefix=PARTIAL, dir=path.parent))
        os.close(handle)
        try:
            Path(temporary).write_bytes(content)
            _to_disk(Path(temporary))
            os.link(temporary, path)
            _to_disk(path.parent)
        except FileExistsError:
            return path.read_bytes() == content
        finally:
            Path(temporary).unlink(missing_ok=True)
        return True

    def append(self, name: str, content: bytes) -> None:
        path = self._path(name)
        handle = _in_folder(path.parent, lambda: os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644))
        try:
            while content:
                content = content[os.write(handle, content) :]
        finally:
            os.close(handle)

    def names(self, folder: str) -> list[str]:
        path = self._path(folder)
        if not path.is_dir():
            return []
        files = (entry.name for entry in os.scandir(path) if _is_blob(entry))
        return [f"{folder}/{name}" for name in sorted(files)]

    def put_file(self, name: str, source: Path, check: Check = go_on) -> None:
        check(0)
        with self._new_file(name) as temporary:
            _copy(source, temporary, check)

    def put_stream(self, name: str, source: Stream, size_bytes: int, check: Check = go_on) -> None:
        check(0)
        with self._new_file(name) as temporary, temporary.open("wb") as out:
            while piece := source.read(PIECE_BYTES):
                out.write(piece)
                check(out.tell())

    def copy_from(self, name: str, source: Store, source_name: str, check: Check = go_on) -> None:
        if isinstance(source, LocalStore):
            self.put_file(name, Path(source.readable_path(source_name)), check)
            return
        with self._new_file(name) as temporary, temporary.open("wb") as file:
            for chunk in source.chunks(source_name):
                check(file.tell())
                file.write(chunk)

    def delete(self, name: str) -> None:
        path = self._path(name)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            _to_disk(path.parent)

    def delete_below(self, folder: str) -> list[str]:
        place = self._path(folder)
        files = [path for path in place.rglob("*") if path.is_file() and not path.name.startswith(PARTIAL)]
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(place)
            _to_disk(place.parent)
        return sorted(path.relative_to(self.root).as_posix() for path in files)

    def listed(self, folder: str | None = None) -> Iterator[ListedBlob]:
        for place, _, names in os.walk(self.root if folder is None else self._path(folder)):
            for name in names:
                path = Path(place, name)
                with contextlib.suppress(FileNotFoundError):
                    found = path.lstat()
                    yield ListedBlob(path.relative_to(self.root).as_posix(), found.st_size, found.st_mtime)

    def remove(self, listed: Iterable[ListedBlob]) -> None:
        folders = set[Path]()
        for one in listed:
            path = self._path_of_listed(one.name)
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            folders.add(path.parent)
        for folder in sorted(folders, reverse=True):
            self._remove_empty(folder)

    def _path_of_listed(self, name: str) -> Path:
        """Return the path of a listed file; half-written ones have names that no blob has."""
        if {"", ".", ".."} & set(name.split("/")) or (
            self.root / name
        ).parent.resolve() != self.root.resolve().joinpath(name).parent:
            raise InvalidInput(f"{name!r} leads to another place than its own.")
        return self.root / name

    def _remove_empty(self, folder: Path) -> None:
        """Remove the folder and those above it that are empty, and flush what is left to the disk."""
        while folder != self.root:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:  # something is in it
                break
            folder = folder.parent
        with contextlib.suppress(FileNotFoundError):
            _to_disk(folder)

    @contextlib.contextmanager
    def _new_file(self, name: str) -> Iterator[Path]:
        """Yield a new file beside the blob's place; it becomes the blob in one step when the block ends well."""
        path = self._path(name)
        handle, temporary = _in_folder(path.parent, lambda: tempfile.mkstemp(prefix=PARTIAL, dir=path.parent))
        os.close(handle)
        try:
            yield Path(temporary)
            _to_disk(Path(temporary))  # first: a name that outlives its content would be a blob that is none
            Path(temporary).replace(path)
            _to_disk(path.parent)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _in_folder(folder: Path, make: Callable[[], Made]) -> Made:
    """Make something in the folder, making the folder too, so that a power cut loses none of them.

    Somebody may be removing folders that nothing is in yet: they are brought to the disk once something is.
    """
    made, above = _make_with_folders(folder, make, _MAKINGS)
    for each in dict.fromkeys(above):
        _to_disk(each)
    return made


def _make_with_folders(folder: Path, make: Callable[[], Made], makings: int) -> tuple[Made, list[Path]]:
    """Make something; return it with the folders in which folders had to be made."""
    above = list[Path]()
    try:
        return make(), above
    except FileNotFoundError:
        if not makings:
            raise
    with contextlib.suppress(FileNotFoundError):
        above += _make_folders(folder)
    made, more = _make_with_folders(folder, make, makings - 1)
    return made, [*above, *more]


def _make_folders(folder: Path) -> list[Path]:
    """Make the folder and those above it; return the folders in which others were made."""
    if folder.is_dir():
        return []
    above = _make_folders(folder.parent)
    folder.mkdir(exist_ok=True)
    return [*above, folder.parent]


def _to_disk(path: Path) -> None:
    """Return once the file's content, or the folder's names, would survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_blob(entry: "os.DirEntry[str]") -> bool:
    return entry.is_file(follow_symlinks=False) and not entry.name.startswith(".")


def _copy(source: Path, target: Path, check: Check) -> None:
    """Copy within the kernel, piece by piece: a stop is noticed between two."""
    with source.open("rb") as content, target.open("wb") as out:
        moved = 0
        while sent := os.sendfile(out.fileno(), content.fileno(), None, PIECE_BYTES):
            moved += sent
            check(moved)
