"""A zone in a local folder: the embedded default."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flows.errors import InvalidInput
from flows.storage.protocol import CHUNK_BYTES, Check, Store, Stream, checked_name, go_on, missing
from flows.storage.readers import FileReader

_PARTIAL = ".partial-"
# Even a slow disk takes so much in a fraction of the two seconds in which a stop is heard.
PIECE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class LocalStore:
    """Blobs as files below one folder."""

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
            raise missing(name)
        return str(path)

    def reader(self, name: str) -> FileReader:
        return FileReader(os.open(self.readable_path(name), os.O_RDONLY | os.O_CLOEXEC))

    def size_bytes(self, name: str) -> int | None:
        path = self._path(name)
        return path.stat().st_size if path.is_file() else None

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
        with self._made(name) as temporary:
            temporary.write_bytes(content)

    def append(self, name: str, content: bytes) -> None:
        path = self._path(name)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            while content:
                content = content[os.write(handle, content) :]
        finally:
            os.close(handle)

    def names(self, folder: str) -> list[str]:
        path = self._path(folder)
        if not path.is_dir():
            return []
        files = (entry.name for entry in os.scandir(path) if entry.is_file() and not entry.name.startswith("."))
        return [f"{folder}/{name}" for name in sorted(files)]

    def put_file(self, name: str, source: Path, check: Check = go_on) -> None:
        check(0)
        with self._made(name) as temporary:
            _copy(source, temporary, check)

    def put_stream(self, name: str, source: Stream, size_bytes: int, check: Check = go_on) -> None:
        check(0)
        with self._made(name) as temporary, temporary.open("wb") as out:
            while piece := source.read(PIECE_BYTES):
                out.write(piece)
                check(out.tell())

    def copy_from(self, name: str, source: Store, source_name: str, check: Check = go_on) -> None:
        if isinstance(source, LocalStore):
            self.put_file(name, Path(source.readable_path(source_name)), check)
            return
        with self._made(name) as temporary, temporary.open("wb") as file:
            for chunk in source.chunks(source_name):
                check(file.tell())
                file.write(chunk)

    def delete(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def delete_below(self, folder: str) -> list[str]:
        place = self._path(folder)
        files = [path for path in place.rglob("*") if path.is_file() and not path.name.startswith(_PARTIAL)]
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(place)
        return sorted(path.relative_to(self.root).as_posix() for path in files)

    @contextlib.contextmanager
    def _made(self, name: str) -> Iterator[Path]:
        """A fresh file beside the blob's place, which becomes the blob in one step when the block ends well."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=_PARTIAL, dir=path.parent)
        os.close(handle)
        try:
            yield Path(temporary)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _copy(source: Path, target: Path, check: Check) -> None:
    """Copy within the kernel, piece by piece: a stop is noticed between two."""
    with source.open("rb") as content, target.open("wb") as out:
        moved = 0
        while sent := os.sendfile(out.fileno(), content.fileno(), None, PIECE_BYTES):
            moved += sent
            check(moved)
