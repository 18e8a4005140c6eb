"""A try in a process of its own, without secrets, that can be killed: how GDAL handlers run. The flow's side.

`flows.sandbox` is the other side. A crash of the child is one failed try.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from flows import forks
from flows.context import Checkpoint
from flows.errors import Crashed, HandlerError, InvalidInput, OutOfMemory, PlannedHandler, Stopped, Transient
from flows.patience import Patience, Step
from flows.settings import TryLimits
from flows.storage import LocalStore, Zones
from flows.workdir import Workdir

if TYPE_CHECKING:
    from flows.tries import Metric, Progress, Try

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")
LARGEST_ANSWER = 64 * 2**20
CHUNK = 64 * 1024
TELLABLE = {error.code: error for error in (InvalidInput, Transient, Stopped, OutOfMemory, PlannedHandler)}


@dataclass(frozen=True)
class Ears:
    """Who hears what the child tells on its way to the answer."""

    progress: "Progress"
    metric: "Metric"
    checkpoint: Checkpoint


def run(attempt: "Try", zones: Zones, stop: Event, ears: Ears, patience: Patience) -> dict[str, Any]:
    """Run the try in a child process and return its result."""
    with Workdir() as workdir:
        order = _order(attempt, zones, ears.checkpoint, workdir.path())
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = start(order, theirs)
            theirs.close()  # so that its end shows at ours
            try:
                return Conversation(ours, ears).until_answered(stop, patience)
            except EOFError:
                raise _crashed(process.end()) from None
            finally:
                process.end()


def _order(attempt: "Try", zones: Zones, checkpoint: Checkpoint, workdir: Path) -> dict[str, Any]:
    """All that the child is told. Nothing of Prefect, the domain or any storage credential is in it."""
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {
        "environment": environment | {"TMPDIR": str(workdir)},
        "try": attempt.as_json(),
        "roots": dict(_roots(zones)),
        "workdir": str(workdir),
        "checkpoint": checkpoint.load(),
        "limits": TryLimits().for_seconds(attempt.timeout_seconds),
    }


def _roots(zones: Zones) -> Iterator[tuple[str, str]]:
    for zone in ("bronze", "silver", "external", "runs"):
        store = getattr(zones, zone)
        if not isinstance(store, LocalStore):
            raise HandlerError(f"GDAL handlers read local zones only; {zone} is a {type(store).__name__}.")
        yield zone, str(store.root)


class Interpreter:
    """The child as a fresh interpreter: the order is its standard input, the channel its standard output."""

    def __init__(self, order: dict[str, Any], channel: socket.socket) -> None:
        with forks.held(order) as stdin:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "flows.sandbox"],
                stdin=stdin,
                stdout=channel.fileno(),
                stderr=None,  # GDAL's own complaints go to the flow run's log
                env=order["environment"],
                start_new_session=True,
            )

    def end(self) -> int:
        """Leave nothing of it behind, and tell how it ended. What it began by itself is in its process group."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()


class Fork:
    """The child as a fork of the pool's zygote, which kills it when we are gone."""

    def __init__(self, zygote: socket.socket) -> None:
        self._zygote = zygote
        self._code: int | None = None

    def end(self) -> int:
        """As above: the zygote kills it with its group, when it has not ended yet, and tells its exit code."""
        if self._code is None:
            with self._zygote, suppress(OSError):
                self._zygote.shutdown(socket.SHUT_WR)
                self._code = forks.exit_code(self._zygote)
            if self._code is None:
                self._code = -signal.SIGKILL
        return self._code


def start(order: dict[str, Any], channel: socket.socket) -> Fork | Interpreter:
    """A child, warm where a zygote answers."""
    zygote = forks.connect(os.environ.get(forks.ADDRESS))
    if zygote is not None:
        if forks.ask(zygote, forks.TRY, order, (channel.fileno(), channel.fileno(), 2)) is not None:
            return Fork(zygote)
        zygote.close()
    return Interpreter(order, channel)


@dataclass
class Conversation:
    """What is said between the two until there is an answer. The child may be hostile: its file was."""

    channel: socket.socket
    ears: Ears
    _unfinished: bytearray = field(default_factory=bytearray)

    def until_answered(self, stop: Event, patience: Patience) -> dict[str, Any]:
        """The result, or its error raised. Ask the child to leave when the run stops or time is up."""
        while True:
            now = time.monotonic()
            step = patience.look(now, stop.is_set())
            if step is Step.ASK:
                self._tell(stop=True)
            elif step is Step.GIVE_UP and patience.why:
                raise patience.why
            for message in self._hear(patience.pause(now)):
                if (answer := self._take(message)) is not None:
                    patience.check()
                    return answer.result()

    def _hear(self, seconds: float) -> list[bytes]:
        """The lines that came in the meantime."""
        if not select.select([self.channel], [], [], seconds)[0]:
            return []
        chunk = _received(self.channel)
        if not chunk:
            raise EOFError
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._unfinished += chunk
            if len(self._unfinished) > LARGEST_ANSWER:
                raise Crashed(f"The handler's process answered with more than {LARGEST_ANSWER:,} bytes.")
            return []
        lines = (bytes(self._unfinished) + head).split(b"\n")
        self._unfinished = bytearray(rest)
        return lines

    def _take(self, line: bytes) -> "Answer | None":
        """Pass on what is told on the way; return the answer when it is one."""
        try:
            match json.loads(line):
                case {"progress": [float() | int() as fraction, str() as text]}:
                    self.ears.progress(fraction, text)
                case {"metric": [str() as name, float() | int() as value]}:
                    self.ears.metric(name, value)
                case {"checkpoint": dict() as state}:
                    self._keep(state)
                case {"result": dict() as result}:
                    return Answer(result)
                case {"error": {"code": str() as code, "message": str() as text}}:
                    return Answer(error=TELLABLE.get(code, HandlerError)(text))
                case _:
                    raise Crashed("The handler's process said what no handler says.")
        except ValueError:
            raise Crashed("The handler's process said what is not JSON.") from None
        return None

    def _keep(self, state: dict[str, Any]) -> None:
        """Acknowledged once it is stored, so that the handler never goes on from what could be lost."""
        fault = None
        try:
            self.ears.checkpoint.save(state)
        except Exception as error:  # noqa: BLE001 - the handler decides what a lost checkpoint means
            fault = f"{type(error).__name__}: {error}"
        self._tell(saved=fault)

    def _tell(self, **message: Any) -> None:
        with suppress(OSError):  # it is gone: that shows where we listen
            self.channel.sendall(json.dumps(message).encode() + b"\n")


@dataclass(frozen=True)
class Answer:
    """How the handler ended."""

    value: dict[str, Any] = field(default_factory=dict)
    error: HandlerError | None = None

    def result(self) -> dict[str, Any]:
        if self.error:
            raise self.error
        return self.value


def _received(channel: socket.socket) -> bytes:
    """What has come; empty at the end, however it came about."""
    try:
        return channel.recv(CHUNK)
    except ConnectionError:  # it died with something unread
        return b""


def _crashed(code: int) -> HandlerError:
    """Why there is no answer, from the exit code."""
    if code == -signal.SIGKILL:
        return Crashed("The handler's process was killed (SIGKILL): most likely the machine ran out of memory.")
    if code == -signal.SIGXCPU:
        return Crashed("The handler's process used up the processor time of its timeout (SIGXCPU).")
    if code == -signal.SIGABRT:
        return Crashed("The handler's process gave up (SIGABRT): native code found a fault, or no memory.")
    if code < 0:
        return Crashed(f"The handler's process crashed ({signal.Signals(-code).name}).")
    return Crashed(f"The handler's process ended without an answer (exit code {code}).")
