"""Storage for a GDAL try, on the flow's side: its calls are checked, made with our credentials, and answered.

The child may be hostile. It reads what its parameters name and what its own run has made, and writes below its own
attempt's place; what it sends are open files, so that it can send only what it could read itself. What it is given to
read by itself are URLs of single blobs, whose signatures are struck from everything it says.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from flows.errors import Crashed, Forbidden, HandlerError, Stopped
from flows.handed import Bounds, HandedFile, fill
from flows.outages import outage_of
from flows.patience import BROKER_LEAVE_SECONDS
from flows.storage import Store, Zones, checked_name
from flows.storage.reading import is_remote

READS: Final = frozenset({"readable_path", "size_bytes", "read_range", "fetch", "names"})
WRITES: Final = frozenset({"put", "append", "copy_from", "delete", "delete_below"})
WRITABLE: Final = frozenset({"silver", "runs"})
LONGEST_RANGE: Final = 64 * 2**20
LONGEST_APPEND: Final = 4 * 2**20  # as much as every kind of store takes at once
MOST_WAITING: Final = 4  # an honest child waits for each answer
STRUCK: Final = b"[redacted]"


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
class Broker:
    """Answers one try's calls, one after another, in a thread of its own: whoever watches the try never waits."""

    zones: Zones
    grants: Grants
    stop: Event
    answer: Callable[[dict[str, Any]], None]
    bounds: Bounds
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
                told = outage_of(error) or HandlerError(type(error).__name__)
                self.answer({"refused": {"code": told.code, "message": str(told)}})
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
                fill(file, [store.read_range(name, *_range(call))], self.bounds)
            case "fetch":
                fill(file, self._fetched(store, name), self.bounds)
            case "append":
                added = HandedFile(file, replace(self.bounds, most_bytes=LONGEST_APPEND))
                store.append(name, added.read(added.size))
            case _:
                handed = HandedFile(file, self.bounds)
                store.put_stream(name, handed, handed.size, self._check if call.get("stops") else self._go_on)

    def _store(self, act: str, zone: str, name: str) -> Store:
        if not self.grants.allow(act, zone, name):
            raise Forbidden(f"A try may not {act.replace('_', ' ')} {name!r} in {zone!r}.")
        store: Store = getattr(self.zones, zone)
        return store

    def _fetched(self, store: Store, name: str) -> Iterator[bytes]:
        for chunk in store.chunks(name):
            self._check()
            yield chunk

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


def _range(call: Mapping[str, Any]) -> tuple[int, int]:
    """Start and length as numbers that a store may be asked for: of a negative length, some would read everything."""
    start, length = int(call["start"]), int(call["length"])
    if start < 0 or length < 0:
        raise Forbidden("A range begins at 0 or later and has no negative length.")
    return start, min(length, LONGEST_RANGE)


def close_quietly(file: int | None) -> None:
    """For a file that came without being asked for."""
    if file is not None:
        with suppress(OSError):
            os.close(file)
