"""A zone as a GDAL try's own process sees it: every call is put to the flow's process, which holds the credentials.

Content goes through files whose open descriptors are handed over, so that no path of this process is ever trusted.
Knows nothing of what the zone is made of.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from flows.errors import InvalidInput
from flows.storage.off_loop import off_the_loop
from flows.storage.protocol import CHUNK_BYTES, Check, Store, Stream, checked_name, go_on


class Ask(Protocol):
    """Puts a call to the flow's process and waits for its answer; raises what the call raised there."""

    def __call__(self, call: dict[str, Any], file: int | None = None) -> Any: ...


@off_the_loop
@dataclass(frozen=True)
class BrokeredStore:
    """One zone, through the flow's process."""

    zone: str
    ask: Ask

    def _ask(self, act: str, name: str, file: int | None = None, **more: Any) -> Any:
        return self.ask({"zone": self.zone, "act": act, "name": checked_name(name), **more}, file)

    def readable_path(self, name: str) -> str:
        return str(self._ask("readable_path", name))

    def size_bytes(self, name: str) -> int | None:
        size: int | None = self._ask("size_bytes", name)
        return size

    def stamp(self, name: str) -> str | None:
        """A try compares nothing with what was there before it."""
        raise NotImplementedError(f"Whether {name!r} was written anew is no try's business.")

    def read_bytes(self, name: str) -> bytes:
        with self._fetched(name) as file:
            return file.read()

    def read_range(self, name: str, start: int, length: int) -> bytes:
        with tempfile.TemporaryFile() as file:
            self._ask("read_range", name, file.fileno(), start=start, length=length)
            file.seek(0)
            return file.read()

    def chunks(self, name: str) -> Iterator[bytes]:
        with self._fetched(name) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def write_bytes(self, name: str, content: bytes) -> None:
        self._send("put", name, content)

    def append(self, name: str, content: bytes) -> None:
        self._send("append", name, content)

    def put_file(self, name: str, source: Path, check: Check = go_on) -> None:
        """The flow's process looks itself whether the run stops, where anything would stop it."""
        check(0)
        with source.open("rb") as file:
            self._ask("put", name, file.fileno(), stops=check is not go_on)

    def put_stream(self, name: str, source: Stream, size_bytes: int, check: Check = go_on) -> None:
        """By way of a file: what is handed over is one."""
        with tempfile.NamedTemporaryFile() as file:
            while piece := source.read(CHUNK_BYTES):
                file.write(piece)
            file.flush()
            self.put_file(name, Path(file.name), check)

    def copy_from(self, name: str, source: Store, source_name: str, check: Check = go_on) -> None:
        check(0)
        if not isinstance(source, BrokeredStore):
            raise InvalidInput(f"{source_name!r} is no blob of a zone.")
        self._ask("copy_from", name, source_zone=source.zone, source_name=checked_name(source_name))

    def names(self, folder: str) -> list[str]:
        return list(self._ask("names", folder))

    def delete(self, name: str) -> None:
        self._ask("delete", name)

    def delete_below(self, folder: str) -> list[str]:
        return list(self._ask("delete_below", folder))

    def _send(self, act: str, name: str, content: bytes) -> None:
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.flush()
            self._ask(act, name, file.fileno())

    @contextmanager
    def _fetched(self, name: str) -> Iterator[BinaryIO]:
        """The blob's content in a file without a name, at its beginning."""
        with tempfile.TemporaryFile() as file:
            self._ask("fetch", name, file.fileno())
            file.seek(0)
            yield file
