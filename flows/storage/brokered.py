"""A zone in a GDAL try's own process: the flow's process, which holds the credentials, makes every call.

The process can open no path of any zone, whatever the zone is made of. What it may read it is handed open: the file
itself, or a line on which ranges of that one blob are answered. What it stores it hands over open, so that no path of
this process is ever trusted. Knows nothing of what the zone is made of.
"""

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from flows.handlers.errors import InvalidInput, StorageForbidden
from flows.storage.lines import LineReader
from flows.storage.off_loop import off_the_loop
from flows.storage.protocol import CHUNK_BYTES, Check, Store, Stream, checked_name, go_on
from flows.storage.readers import FileReader, Reader, chunks


class Answered(NamedTuple):
    """A call's result, and the file that was handed over with it."""

    value: Any
    descriptor: int | None = None


class Ask(Protocol):
    """Sends a call to the flow's process, waits for the answer, and raises what the call raised there."""

    def __call__(self, call: dict[str, Any], file: int | None = None) -> Answered: ...


@off_the_loop
@dataclass(frozen=True)
class BrokeredStore:
    """One zone, through the flow's process."""

    zone: str
    ask: Ask

    def _ask(self, act: str, name: str, file: int | None = None, **more: Any) -> Any:
        return self.ask({"zone": self.zone, "act": act, "name": checked_name(name), **more}, file).value

    def readable_path(self, name: str) -> str:
        raise StorageForbidden(f"A try opens no path of a zone: it reads {name!r} by what it is handed.")

    def reader(self, name: str) -> Reader:
        size, descriptor = self.ask({"zone": self.zone, "act": "open", "name": checked_name(name)})
        assert descriptor is not None  # noqa: S101 - what is opened is handed over
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return FileReader(descriptor)
        return LineReader(socket.socket(fileno=descriptor), int(size))

    def size_bytes(self, name: str) -> int | None:
        size: int | None = self._ask("size_bytes", name)
        return size

    def read_bytes(self, name: str) -> bytes:
        with self.reader(name) as blob:
            return blob.read(0, blob.size_bytes)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        with self.reader(name) as blob:
            return blob.read(start, length)

    def chunks(self, name: str) -> Iterator[bytes]:
        with self.reader(name) as blob:
            yield from chunks(blob)

    def write_bytes(self, name: str, content: bytes) -> None:
        self._send("put", name, content)

    def write_new(self, name: str, content: bytes) -> bool:
        raise StorageForbidden(f"A try shares work with nobody: it does not ask whether {name!r} is new.")

    def append(self, name: str, content: bytes) -> None:
        self._send("append", name, content)

    def put_file(self, name: str, source: Path, check: Check = go_on) -> None:
        """The flow's process looks itself whether the run stops, where anything would stop it."""
        check(0)
        with source.open("rb") as file:
            self._ask("put", name, file.fileno(), stops=check is not go_on)

    def put_stream(self, name: str, source: Stream, size_bytes: int, check: Check = go_on) -> None:
        """Write the stream to a file first, since only files can be handed over."""
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
