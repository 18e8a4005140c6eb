"""Storage for a GDAL try, on the flow's side: its calls are checked, made with our credentials, and answered.

The child may be hostile. It reads what its parameters name and what its own run has made, and writes below its own
attempt's place. It is given no path, address or credential: a blob that it may read it is handed open, as the file or
as a line that gives ranges of that one blob. What it sends are open files, so that it can send only what it could read
itself.
"""

import os
import socket
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Final, Protocol

from flows.handlers.errors import Crashed, HandlerError, SourceChanged, Stopped, StorageForbidden
from flows.runs.outages import outage_of
from flows.storage import Store, Zones, checked_name
from flows.storage.lines import serve
from flows.tries.file_from_try import Bounds, HandedFile
from flows.tries.time_budget import BROKER_LEAVE_SECONDS

READS: Final = frozenset({"open", "size_bytes", "names"})
WRITES: Final = frozenset({"put", "append", "copy_from", "delete", "delete_below"})
WRITABLE: Final = frozenset({"silver", "runs"})
LONGEST_APPEND: Final = 4 * 2**20  # as much as every kind of store takes at once
MOST_WAITING: Final = 4  # an honest child waits for each answer
MOST_LINES: Final = 16  # blobs that a try may read by ranges at the same time; each may hold one answer in our memory


class Tell(Protocol):
    """Sends the child a message, and an open file with it."""

    def __call__(self, message: dict[str, Any], file: int | None = None) -> None: ...


@dataclass(frozen=True)
class Grants:
    """What one try may do. `home` is where its run's products lie, `output` where its attempt puts them."""

    named: frozenset[str]
    home: str
    output: str

    @classmethod
    def of(cls, named: Set[str], output_prefix: str) -> "Grants":
        """What a try may do whose parameters name these blobs."""
        return cls(frozenset(named), output_prefix.rpartition("/")[0] or output_prefix, output_prefix)

    def allow(self, act: str, zone: str, name: str) -> bool:
        """Whether this call is the try's business: its sources as they came, and what its run has made."""
        if act in READS:
            return (zone == "bronze" and name in self.named) or (zone in WRITABLE and _is_below(name, self.home))
        return act in WRITES and zone in WRITABLE and _is_below(name, self.output)


def _is_below(name: str, folder: str) -> bool:
    return name == folder or name.startswith(f"{folder}/")


@dataclass
class StorageBroker:
    """Answers one try's calls, one after another, in a thread of its own: whoever watches the try never waits."""

    zones: Zones
    grants: Grants
    stop: Event
    answer: Tell
    bounds: Bounds
    _calls: "SimpleQueue[tuple[Mapping[str, Any], int | None] | None]" = field(default_factory=SimpleQueue)
    _lines: list[tuple[Thread, socket.socket]] = field(default_factory=list)
    _versions: dict[str, str] = field(default_factory=dict)  # of sources, as the try opened them first
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

    def close(self) -> None:
        """Leave what is under way: the try is over. What it had not finished becomes no blob."""
        self._closed.set()
        self._calls.put(None)
        if self._thread is not None:
            self._thread.join(BROKER_LEAVE_SECONDS)
        for _, line in self._lines:
            _shut(line)

    def _serve(self) -> None:
        while taken := self._calls.get():
            call, file = taken
            try:
                self._answered(call, file)
            except HandlerError as error:
                self.answer({"refused": {"code": error.code, "message": str(error)}})
            except Exception as error:  # noqa: BLE001 - the child must hear of it, and the thread must live on
                told = outage_of(error) or HandlerError(type(error).__name__)
                self.answer({"refused": {"code": told.code, "message": str(told)}})
            finally:
                if file is not None:
                    os.close(file)

    def _answered(self, call: Mapping[str, Any], file: int | None) -> None:
        """Do as the call says, if it may, and tell what came of it."""
        self._go_on()
        act, name = str(call["act"]), checked_name(str(call["name"]))
        store = self._store(act, str(call["zone"]), name)
        if act == "open":
            self._open(store, str(call["zone"]), name)
        elif act in {"size_bytes", "names", "delete", "delete_below"}:
            self.answer({"stored": getattr(store, act)(name)})
        else:
            self._take_in(store, act, name, call, file)
            self.answer({"stored": None})

    def _open(self, store: Store, zone: str, name: str) -> None:
        """Hand the blob over: its file, open for reading and nothing else, or a line to a thread that reads it."""
        self._check()
        blob = store.reader(name)
        if zone not in WRITABLE and self._versions.setdefault(name, blob.version) != blob.version:
            blob.close()
            raise SourceChanged
        if blob.descriptor is not None:
            with blob:
                self.answer({"stored": blob.size_bytes}, blob.descriptor)
            return
        self._lines = [each for each in self._lines if each[0].is_alive()]
        if len(self._lines) >= MOST_LINES:
            raise StorageForbidden(f"A try reads no more than {MOST_LINES} blobs at once.")
        ours, theirs = socket.socketpair()
        thread = Thread(target=serve, args=(ours, blob, self._check), name="line", daemon=True)
        self._lines.append((thread, ours))
        thread.start()
        with theirs:
            self.answer({"stored": blob.size_bytes}, theirs.fileno())

    def _take_in(self, store: Store, act: str, name: str, call: Mapping[str, Any], file: int | None) -> None:
        """Content from there to here."""
        match act:
            case "copy_from":
                source_name = checked_name(str(call["source_name"]))
                source = self._store("open", str(call["source_zone"]), source_name)
                store.copy_from(name, source, source_name, self._check)
            case "append":
                added = HandedFile(file, replace(self.bounds, most_bytes=LONGEST_APPEND))
                store.append(name, added.read(added.size))
            case _:
                handed = HandedFile(file, self.bounds)
                store.put_stream(name, handed, handed.size, self._check if call.get("stops") else self._go_on)

    def _store(self, act: str, zone: str, name: str) -> Store:
        if not self.grants.allow(act, zone, name):
            raise StorageForbidden(f"A try may not {act.replace('_', ' ')} {name!r} in {zone!r}.")
        store: Store = getattr(self.zones, zone)
        return store

    def _check(self, moved: int = 0) -> None:
        """Bring nothing more to a try that is to leave, and take nothing long from it."""
        if self.stop.is_set():
            raise Stopped("The run was asked to stop.")
        self._go_on()

    def _go_on(self, moved: int = 0) -> None:
        """Leave what nobody waits for any more. A try that was asked to leave may still put away what it has."""
        if self._closed.is_set():
            raise Stopped("The try is over.")


def _shut(line: socket.socket) -> None:
    """Wake whoever waits at either end. Its thread closes it."""
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


def close_quietly(file: int | None) -> None:
    """For a file that came without being asked for."""
    if file is not None:
        with suppress(OSError):
            os.close(file)
