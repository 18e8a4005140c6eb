"""Storage for a GDAL try, on the flow's side: its calls are checked, made with our credentials, and answered.

The child may be hostile. It reads what its parameters name and what its own run has made, and writes below its own
attempt's place; what it sends are open files, so that it can send only what it could read itself. What it is given to
read by itself are URLs of single blobs, whose signatures are struck from everything it says.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from flows.errors import Crashed, Forbidden, HandlerError, Stopped
from flows.patience import BROKER_LEAVE_SECONDS
from flows.storage import Store, Zones, checked_name
from flows.storage.reading import is_remote

READS: Final = frozenset({"readable_path", "size_bytes", "read_range", "fetch", "names"})
WRITES: Final = frozenset({"put", "append", "copy_from", "delete", "delete_below"})
WRITABLE: Final = frozenset({"silver", "runs"})
LONGEST_RANGE: Final = 64 * 2**20
MOST_WAITING: Final = 4  # an honest child waits for each answer
STRUCK: Final = b"[redacted]"


@dataclass(frozen=True)
class Grants:
    """What one try may do. `home` is where its run's products lie, `output` where its attempt puts them."""

    named: frozenset[str]
    home: str
    output: str

    def allow(self, act: str, zone: str, name: str) -> bool:
        """Whether this call is the try's business."""
        if act in READS:
            return name in self.named or (zone in WRITABLE and _is_below(name, self.home))
        return act in WRITES and zone in WRITABLE and _is_below(name, self.output)


def _is_below(name: str, folder: str) -> bool:
    return name == folder or name.startswith(f"{folder}/")


def grants(params: Mapping[str, Any], output_prefix: str) -> Grants:
    """What a try with these parameters may do."""
    home = output_prefix.rpartition("/")[0] or output_prefix
    return Grants(frozenset(_texts(params)), home, output_prefix)


def _texts(value: object) -> Iterator[str]:
    """Every text in the parameters: any of them may be a blob's name."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _texts(member)


@dataclass
class Broker:
    """Answers one try's calls, one after another, in a thread of its own: whoever watches the try never waits."""

    zones: Zones
    grants: Grants
    stop: Event
    answer: Callable[[dict[str, Any]], None]
    _calls: "SimpleQueue[tuple[Mapping[str, Any], int | None] | None]" = field(default_factory=SimpleQueue)
    _signatures: frozenset[bytes] = frozenset()  # made anew for each, because other threads go through it
    _closed: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def take(self, call: Mapping[str, Any], file: int | None) -> None:
        """Answer this when its turn comes. The file is ours from now on."""
        if self._calls.qsize() >= MOST_WAITING:
            close_quietly(file)
            raise Crashed("The handler's process asks for storage without waiting for answers.")
        if self._thread is None:
            self._thread = Thread(target=self._serve, name="broker", daemon=True)
            self._thread.start()
        self._calls.put((call, file))

    def strike(self, said: bytes) -> bytes:
        """What the child said, without the signatures it was given."""
        for signature in self._signatures:
            said = said.replace(signature, STRUCK)
        return said

    def close(self) -> None:
        """Leave what is under way: the try is over. What it had not finished becomes no blob."""
        self._closed.set()
        self._calls.put(None)
        if self._thread is not None:
            self._thread.join(BROKER_LEAVE_SECONDS)

    def _serve(self) -> None:
        while taken := self._calls.get():
            call, file = taken
            try:
                self.answer({"stored": self._made(call, file)})
            except HandlerError as error:
                self.answer({"refused": {"code": error.code, "message": str(error)}})
            except Exception as error:  # noqa: BLE001 - the child must hear of it, and the thread must live on
                self.answer({"refused": {"code": HandlerError.code, "message": type(error).__name__}})
            finally:
                if file is not None:
                    os.close(file)

    def _made(self, call: Mapping[str, Any], file: int | None) -> Any:
        """The call's result, as JSON takes it."""
        self._go_on()
        act, name = str(call["act"]), checked_name(str(call["name"]))
        store = self._store(act, str(call["zone"]), name)
        if act == "readable_path":
            return self._noted(store.readable_path(name))
        if act in {"size_bytes", "names", "delete", "delete_below"}:
            return getattr(store, act)(name)
        self._move(store, act, name, call, file)
        return None

    def _move(self, store: Store, act: str, name: str, call: Mapping[str, Any], file: int | None) -> None:
        """Content from here to there."""
        match act:
            case "copy_from":
                source_name = checked_name(str(call["source_name"]))
                source = self._store("fetch", str(call["source_zone"]), source_name)
                store.copy_from(name, source, source_name, self._check)
            case "read_range":
                length = min(int(call["length"]), LONGEST_RANGE)
                _write_all(_regular(file), store.read_range(name, int(call["start"]), length))
            case "fetch":
                self._fetch(store, name, _regular(file))
            case "append":
                store.append(name, _path(file).read_bytes())
            case _:
                store.put_file(name, _path(file), self._check if call.get("stops") else self._go_on)

    def _store(self, act: str, zone: str, name: str) -> Store:
        if not self.grants.allow(act, zone, name):
            raise Forbidden(f"A try may not {act.replace('_', ' ')} {name!r} in {zone!r}.")
        store: Store = getattr(self.zones, zone)
        return store

    def _fetch(self, store: Store, name: str, file: int) -> None:
        for chunk in store.chunks(name):
            self._check()
            _write_all(file, chunk)

    def _check(self, moved: int = 0) -> None:
        """Bring nothing more to a try that is to leave, and take nothing long from it."""
        if self.stop.is_set():
            raise Stopped("The run was asked to stop.")
        self._go_on()

    def _go_on(self, moved: int = 0) -> None:
        """Leave what nobody waits for any more. A try that was asked to leave may still put away what it has."""
        if self._closed.is_set():
            raise Stopped("The try is over.")

    def _noted(self, readable: str) -> str:
        if is_remote(readable):
            query = urlsplit(readable).query
            encoded = [part.partition("=")[2] for part in query.split("&") if part.startswith("sig=")]
            decoded = parse_qs(query).get("sig", [])
            self._signatures |= frozenset(one.encode() for one in (*encoded, *decoded) if one)
        return readable


def _regular(file: int | None) -> int:
    """The file, if it is one: a pipe would have us wait for the child."""
    if file is None or not stat.S_ISREG(os.fstat(file).st_mode):
        raise Forbidden("Content goes through a file.")
    return file


def _path(file: int | None) -> Path:
    """The open file by a name of ours; opened so, it is read from its beginning."""
    return Path(f"/proc/self/fd/{_regular(file)}")


def _write_all(file: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


def close_quietly(file: int | None) -> None:
    """For a file that came without being asked for."""
    if file is not None:
        with suppress(OSError):
            os.close(file)
