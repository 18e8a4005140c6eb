"""Handlers that misbehave on order, for tests of tries. Declared by whoever asks, so that no catalogue shows them."""

import ctypes
import gc
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any

from pydantic import BaseModel

from domain.contracts.artifacts import Artifact
from domain.contracts.names import GivenName, MadeName
from flows.handlers import registry
from flows.handlers.context import LONGEST_LINE, MOST_LINES, Context
from flows.handlers.errors import HandlerError
from flows.handlers.registry import handler
from flows.storage.lines import ANSWER, QUESTION, LineReader, receive_exactly
from flows.storage.readers import Reader
from flows.tries import process_child
from tests.support import reaching

NAMES = ("probe.gdal", "probe.light", "probe.claim")
LET_GO = Event()  # of light handlers that stay until they are let go


class Act(BaseModel):
    what: str
    seconds: float = 600.0
    name: GivenName = ""
    target: str = ""
    flow: int = 0
    only: str = ""


class Seen(BaseModel):
    seen: dict[str, Any] = {}


class Claim(BaseModel):
    """What a try is to say that it made."""

    source: GivenName
    claimed: dict[str, Any]


class Made(BaseModel):
    source: GivenName
    product: MadeName
    parts: list[MadeName] = []
    artifacts: list[Artifact] = []


def claim(params: Claim, context: Context) -> Made:
    """Say it, unchecked: whoever has taken the process over says what they like."""
    return Made.model_construct(**params.claimed)


def act(params: Act, context: Context) -> Seen:
    """Do what is asked."""
    return Seen(seen=ACTS[params.what](params, context) or {})


def _look(params: Act, context: Context) -> dict[str, Any]:
    """Everything a handler could find in its process."""
    sys.stdout.write("noise on standard output\n")
    os.write(1, b"more noise\n")
    descriptors = {path.name: str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    return {
        "environment": dict(os.environ),
        "initial": Path("/proc/self/environ").read_text().split("\0"),
        "descriptors": descriptors,
        "pid": os.getpid(),
        "parent": os.getppid(),
        "group": os.getpgid(0),
        "workdir": str(context.workdir),
    }


def _phases(params: Act, context: Context) -> dict[str, Any]:
    """Save a phase, tell of it, and be stopped in the next."""
    state = context.checkpoint.load() or {"phase": 0}
    context.checkpoint.save({"phase": int(str(state["phase"])) + 1})
    context.metric("pixels", 12.5)
    context.progress(0.5, "half")
    return state


def _leave(params: Act, context: Context) -> None:
    """Wait for the stop and save while leaving."""
    context.progress(0.1, str(os.getpid()))
    context.stop_event.wait(params.seconds)
    context.checkpoint.save({"left": True})
    context.raise_if_stopping()


def _stay(params: Act, context: Context) -> None:
    """Take no notice of anything."""
    context.progress(0.1, json.dumps([os.getpid()]))
    time.sleep(params.seconds)
    context.checkpoint.save({"stayed": True})


def _stay_until_let_go(params: Act, context: Context) -> None:
    """Take no notice of a stop; for as long as a test wants."""
    context.progress(0.1, "begun")
    LET_GO.wait(params.seconds)
    context.checkpoint.save({"stayed": True})


def _finish_when_asked(params: Act, context: Context) -> None:
    """Wait until told to leave, and then end well instead."""
    context.progress(0.1, "begun")
    context.stop_event.wait(params.seconds)


def _stay_in_company(params: Act, context: Context) -> None:
    """Take no notice of anything, with a grandchild that takes none either: there is one only without confinement."""
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        context.progress(0.1, json.dumps([os.getpid(), sleeper.pid]))


def _segfault(params: Act, context: Context) -> None:
    (context.workdir / "large").write_bytes(b"0" * 1000)
    ctypes.string_at(0)


def _fail(params: Act, context: Context) -> None:
    (context.workdir / "work").write_bytes(b"0" * 1000)
    raise HandlerError("Failed after work.")


def _memory(params: Act, context: Context) -> None:
    bytearray(64 * 2**30)


def _exit(params: Act, context: Context) -> None:
    os._exit(7)


def _leave_python(params: Act, context: Context) -> None:
    sys.exit("handlers do not exit")


def _spin(params: Act, context: Context) -> None:
    while True:
        pass


def _print_garbage(params: Act, context: Context) -> None:
    """Write to every descriptor there is, as broken native code might."""
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            os.write(int(path.name), b"garbage\n")
    time.sleep(5)


def _store(params: Act, context: Context) -> dict[str, Any]:
    """Do all that can be done with storage."""
    bronze, silver, output = context.storage.bronze, context.storage.silver, context.output_prefix
    fetched = context.workdir / "fetched"
    fetched.write_bytes(bronze.read_bytes(params.name))
    silver.put_file(f"{output}/out/kept", fetched)
    silver.copy_from(f"{output}/copy", bronze, params.name)
    silver.write_bytes(f"{output}/small", b"small")
    for word in (b"one ", b"two "):
        context.storage.runs.append(f"{output}/words", word)
    seen: dict[str, Any] = {
        "size": bronze.size_bytes(params.name),
        "head": bronze.read_range(params.name, 0, 4).decode(),
        "chunks": len(list(bronze.chunks(params.name))),
        "content": silver.size_bytes(f"{output}/copy"),
        "names": silver.names(output),
        "appended": context.storage.runs.read_bytes(f"{output}/words").decode(),
    }
    for name in silver.names(output):
        silver.delete(name)
    return {**seen, "deleted": [name for name in seen["names"] if silver.size_bytes(name) is None]}


def _send_pipe(params: Act, context: Context) -> None:
    """What would have the flow's process wait for ever."""
    ears, _ = os.pipe()
    silver: Any = context.storage.silver
    silver.ask({"zone": "silver", "act": "put", "name": context.output_name("x")}, ears)


def _line() -> Any:
    """The line to the flow's process, as whoever has taken this one over would find it."""
    return next(each for each in gc.get_objects() if isinstance(each, process_child.Channel))


def _hand_over(params: Act, context: Context) -> dict[str, Any]:
    """Send descriptors that no honest try sends; what came of each."""
    own = context.workdir / "own"
    own.write_bytes(b"own")
    attempts: dict[str, tuple[str, Callable[[], int]]] = {
        "honest put": ("put", lambda: os.open(own, os.O_RDONLY)),
        "honest append": ("append", lambda: os.open(own, os.O_RDWR)),
        "another's file, named only": ("put", lambda: os.open(params.target, os.O_PATH)),
        "another's file, appended": ("append", lambda: os.open(params.target, os.O_PATH)),
        "the flow's environment": ("put", lambda: os.open(f"/proc/{params.flow}/environ", os.O_PATH)),
        "the flow's memory": ("append", lambda: os.open(f"/proc/{params.flow}/mem", os.O_PATH)),
        "the parent's environment": ("put", lambda: os.open(f"/proc/{os.getppid()}/environ", os.O_PATH)),
        "own environment": ("put", lambda: os.open("/proc/self/environ", os.O_RDONLY)),
        "for writing only": ("put", lambda: os.open(own, os.O_WRONLY)),
        "memory": ("put", lambda: os.memfd_create("m")),
        "a folder": ("put", lambda: os.open(context.workdir, os.O_RDONLY)),
        "a pipe": ("put", lambda: os.pipe()[0]),
        "a device": ("put", lambda: os.open("/dev/null", os.O_RDONLY)),
    }
    seen: dict[str, Any] = {}
    for number, (what, (act, opened)) in enumerate(attempts.items()):
        if params.only not in {"", what}:
            continue
        seen[what] = _asked(context.output_name(f"taken-{number}"), act, opened)
    return seen


def _asked(name: str, act: str, opened: Callable[[], int]) -> str:
    try:
        file = opened()
    except OSError as error:  # the kernel did not even let it be opened
        return type(error).__name__
    try:
        _line().ask({"zone": "silver", "act": act, "name": name}, file)
    except Exception as error:  # noqa: BLE001 - the test tells which refusal it was
        return type(error).__name__
    else:
        return "taken"
    finally:
        os.close(file)


def _ask_for_everything(params: Act, context: Context) -> dict[str, Any]:
    """Ranges that no honest reader asks for, and more open blobs than anybody needs; what came of each."""
    seen: dict[str, Any] = {}
    with context.storage.bronze.reader(params.name) as blob:
        assert isinstance(blob, LineReader)
        for start, length in ((0, 4), (8, 2**40), (2**63, 4), (0, 2**63)):
            blob.line.sendall(QUESTION.pack(start, length))
            kind, size = ANSWER.unpack(receive_exactly(blob.line, ANSWER.size))
            seen[f"{start},{length}"] = [kind, len(receive_exactly(blob.line, size))]
    held: list[Reader] = []
    try:
        while len(held) < 1000:
            held.append(context.storage.bronze.reader(params.name))
    except HandlerError as refusal:
        seen["refused"] = [type(refusal).__name__, len(held)]
    held.clear()
    gc.collect()
    seen["again"] = context.storage.bronze.read_range(params.name, 0, 4).decode()
    return seen


def _measure_everything(params: Act, context: Context) -> None:
    context.metric("m" * 10_000, 1.0)  # first: afterwards there are too many of any length
    for number in range(5000):
        context.metric(f"m{number}", 1.0)


def _ask_without_waiting(params: Act, context: Context) -> None:
    """Fill the flow's process with calls, and hear none of its answers."""
    silver: Any = context.storage.silver
    channel = silver.ask.__self__
    while True:
        channel.tell(store={"zone": "silver", "act": "names", "name": context.output_prefix})


def _find_secrets(params: Act, context: Context) -> dict[str, Any]:
    """Read the source by every way there is, and then look for these patterns in all that this process holds."""
    with suppress(HandlerError):
        context.storage.bronze.readable_path(params.name)
    read = len(context.storage.bronze.read_bytes(params.name))
    patterns = {pattern: re.compile(pattern.encode()) for pattern in json.loads(params.target)}
    found: dict[str, bool] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, rights, *_ = line.split()
        if rights[0] == "r":
            first, end = (int(edge, 16) for edge in place.split("-"))
            for content in _what_lies(first, end):
                found |= {pattern: True for pattern, wanted in patterns.items() if wanted.search(content)}
    return {"read": read, "found": sorted(found)}


def _what_lies(first: int, end: int) -> Iterator[bytes]:
    """What lies there, in pieces that overlap. A write of it fails where it cannot be read, and harms nobody."""
    piece, overlap = 4 * 2**20, 4096
    with tempfile.TemporaryFile() as file:
        for start in range(first, end, piece):
            length = min(piece + overlap, end - start)
            written = ctypes.CDLL(None).pwrite(file.fileno(), ctypes.c_void_p(start), ctypes.c_size_t(length), 0)
            if written > 0:
                yield os.pread(file.fileno(), written, 0)


def _raise(params: Act, context: Context) -> None:
    raise OSError(f"cannot open {params.name}")


def _log(params: Act, context: Context) -> None:
    """Log a little of everything, then too much."""
    context.logger.debug("not asked for")
    context.logger.info("began with %s", params.name)
    context.logger.warning("password=%s", params.name)
    try:
        int("one")
    except ValueError:
        context.logger.exception("went wrong")
    for number in range(2 * MOST_LINES):
        context.logger.info("line %d", number)


def _log_past_all_bounds(params: Act, context: Context) -> None:
    """Say more than the child's own side would let through."""
    lines: Any = logging.getLogger("cairn").handlers[0]
    for _ in range(2 * MOST_LINES):
        lines._channel.tell(log=[10**9, "x" * 2 * LONGEST_LINE])


def _say(params: Act, context: Context) -> None:
    """Say this line to the flow's process, past all that the child's own side makes of what it says."""
    lines: Any = logging.getLogger("cairn").handlers[0]
    lines._channel.socket.sendall(params.name.replace("deep", "[" * 100_000).encode() + b"\n")


ACTS: dict[str, Callable[[Act, Context], dict[str, Any] | None]] = {
    "look": _look, "phases": _phases, "leave": _leave, "stay": _stay,
    "stay until let go": _stay_until_let_go, "finish when asked": _finish_when_asked,
    "stay in company": _stay_in_company,
    "segfault": _segfault, "memory": _memory, "exit": _exit, "fail with work done": _fail,
    "raise": _raise, "store": _store, "send a pipe": _send_pipe, "find secrets": _find_secrets,
    "ask without waiting": _ask_without_waiting,
    "log": _log, "log past all bounds": _log_past_all_bounds,
    "read another's": lambda params, context: {"read": len(context.storage.bronze.read_bytes("in/b.bin"))},
    "read nothing": lambda params, context: {"read": len(context.storage.bronze.read_bytes(params.name))},
    "reach": lambda params, context: reaching.reach(params.name, json.loads(params.target), context),
    "write bronze": lambda params, context: context.storage.bronze.write_bytes(params.name, b"mine now"),
    "hand over": _hand_over, "ask for everything": _ask_for_everything, "measure everything": _measure_everything,
    "leave python": _leave_python, "spin": _spin, "garbage": _print_garbage, "say": _say,
    "nothing": lambda params, context: None,
}  # fmt: skip


def declare() -> None:
    """Make the probes known to this process."""
    pools = {"probe.gdal": "gdal", "probe.light": "light"}
    for name, pool in pools.items():
        handler(name, pool=pool, example=Seen())(act)
    handler("probe.claim", pool="gdal", example=Made(source="in/a.tif", product="assets/a/0-r1/a1/x"))(claim)
    registry.registry.cache_clear()


@contextmanager
def declared() -> Iterator[None]:
    """The probes, for as long as a test needs them."""
    declare()
    try:
        yield
    finally:
        for name in NAMES:
            registry._declared.pop(name)
        registry.registry.cache_clear()
