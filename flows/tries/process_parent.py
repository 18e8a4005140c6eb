"""A try in a process of its own, without secrets, that can be killed: how GDAL handlers run. The flow's side.

`flows.tries.process_child` is the other side. A crash of the child is one failed try.
"""

import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from domain.shared.logs import redact
from flows.handlers.context import LOGGER, LONGEST_LINE, MOST_LINES, Checkpoint
from flows.handlers.errors import TELLABLE, Crashed, HandlerError
from flows.settings import TryLimits
from flows.storage import Zones
from flows.tries import debugging, fork_client
from flows.tries.confinement import AT_MOST
from flows.tries.file_from_try import Bounds
from flows.tries.process_messages import Unheard, said
from flows.tries.storage_broker import Grants, StorageBroker, close_quietly
from flows.tries.thread_limit import ThreadBound
from flows.tries.time_budget import TimeBudget, WaitStep
from flows.tries.workdir import Workdir

if TYPE_CHECKING:
    from flows.tries.one_try import Metric, Progress, Try

log = logging.getLogger(LOGGER)
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", AT_MOST)
LARGEST_ANSWER = 64 * 2**20
CHUNK = 64 * 1024
MEGABYTE = 2**20
LONGEST_COMPLAINT = 16 * 1024
LAST_WORDS_SECONDS = 1.0
MOST_METRICS = 100
LONGEST_METRIC = 100
SEND_SECONDS = 2.0


@dataclass(frozen=True)
class Listeners:
    """Who hears what the child reports before its answer."""

    progress: "Progress"
    metric: "Metric"
    checkpoint: Checkpoint


def run_in_process(
    attempt: "Try", named: Set[str], zones: Zones, stop: Event, listeners: Listeners, time_budget: TimeBudget
) -> dict[str, Any]:
    """Run the try in a child process and return what it says is its result. It may read the blobs that are named."""
    with Workdir() as workdir:
        order = _order(attempt, listeners.checkpoint, workdir.path())
        ours, theirs = socket.socketpair()
        ours.settimeout(SEND_SECONDS)  # a child that does not listen must not hold up who watches it
        with ours, theirs:
            conversation = Conversation(ours, listeners, ThreadBound(order["limits"]["threads"]))
            rights = Grants.of(named, attempt.output_prefix)
            bounds = Bounds.of(workdir.path(), order["limits"]["file_mb"] * MEGABYTE)
            broker = conversation.broker = StorageBroker(zones, rights, stop, conversation.tell, bounds)
            error_output = ErrorOutput()
            try:
                process = start_process(order, theirs, error_output.write_end)
            finally:
                error_output.listen()
            theirs.close()  # so that its end shows at ours
            try:
                return conversation.until_answered(stop, time_budget)
            except EOFError:
                raise _crashed(process.end()) from None
            finally:
                process.end()
                broker.close()
                conversation.close()
                error_output.end()


def _order(attempt: "Try", checkpoint: Checkpoint, workdir: Path) -> dict[str, Any]:
    """Make the order, which is all the child is told: nothing of Prefect, the domain or where a zone is."""
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    limits = TryLimits()
    return {
        "environment": environment | {"TMPDIR": str(workdir)},
        "try": attempt.as_json(),
        "workdir": str(workdir),
        "checkpoint": checkpoint.load(),
        "limits": limits.for_seconds(attempt.timeout_seconds),
        "confinement": limits.confinement,
        "debug_port": debugging.port_for(attempt.handler),
    }


class ErrorOutput:
    """Passes the child's standard error on to ours, without what must not be read there."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self._thread = Thread(target=self._pass_on, name="complaints", daemon=True)

    def listen(self) -> None:
        """Close our copy of the write end, which the child has by now, and begin to read."""
        os.close(self.write_end)
        self._thread.start()

    def end(self) -> None:
        """Pass on the last of it."""
        self._thread.join(LAST_WORDS_SECONDS)

    def _pass_on(self) -> None:
        with os.fdopen(self._read_end, "rb") as lines:
            while line := lines.readline(LONGEST_COMPLAINT):
                os.write(2, redact(line.decode(errors="replace")).encode())


class Interpreter:
    """The child as a fresh interpreter: the order is its standard input, the channel its standard output."""

    def __init__(self, order: dict[str, Any], channel: socket.socket, stderr: int) -> None:
        with fork_client.in_nameless_file(order) as stdin:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "flows.tries.process_child"],
                stdin=stdin,
                stdout=channel.fileno(),
                stderr=stderr,  # GDAL's own error_output go to the flow run's log
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
        """Have the zygote kill it with its group where it has not ended yet; return its exit code."""
        if self._code is None:
            with self._zygote, suppress(OSError):
                self._zygote.shutdown(socket.SHUT_WR)
                self._code = fork_client.exit_code(self._zygote)
            if self._code is None:
                self._code = -signal.SIGKILL
        return self._code


def start_process(order: dict[str, Any], channel: socket.socket, stderr: int) -> Fork | Interpreter:
    """Start a child: forked by the zygote where one answers, else a fresh interpreter."""
    zygote = fork_client.connect_to_zygote(os.environ.get(fork_client.ADDRESS))
    if zygote is not None:
        if (
            fork_client.ask_for_fork(zygote, fork_client.TRY, order, (channel.fileno(), channel.fileno(), stderr))
            is not None
        ):
            return Fork(zygote)
        zygote.close()
    return Interpreter(order, channel, stderr)


@dataclass
class Conversation:
    """The conversation with the child until it answers. The child may be hostile, as its file may have been."""

    channel: socket.socket
    listeners: Listeners
    threads: ThreadBound
    broker: StorageBroker | None = None
    _unfinished: bytearray = field(default_factory=bytearray)
    _lines: int = 0
    _measured: set[str] = field(default_factory=set)
    _file: int | None = None
    _telling: Lock = field(default_factory=Lock)

    def until_answered(self, stop: Event, time_budget: TimeBudget) -> dict[str, Any]:
        """Return the child's result, or raise its error. Ask it to leave when the run stops or its time is up."""
        while True:
            now = time.monotonic()
            step = time_budget.next_step(now, stop.is_set())
            if step is WaitStep.ASK:
                self.tell({"stop": True})
            elif step is WaitStep.GIVE_UP and time_budget.why:
                raise time_budget.why
            for message in self._receive_lines(time_budget.seconds_to_next_step(now)):
                if (answer := self._handle_message(message)) is not None:
                    time_budget.refuse_late_answer()
                    return answer.result()

    def _receive_lines(self, seconds: float) -> list[bytes]:
        """Wait so long for more of what the child says; return the lines that are whole by now."""
        if not select.select([self.channel], [], [], seconds)[0]:
            return []
        chunk, file = _received(self.channel)
        if file is not None:
            close_quietly(self._file)
            self._file = file
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

    def _handle_message(self, line: bytes) -> "TryAnswer | None":
        """Do what the child's message asks for; return the answer when it is one."""
        try:
            match said(line):
                case {"progress": [float() | int() as fraction, str() as text]} if isfinite(fraction):
                    self.listeners.progress(fraction, text)
                case {"metric": [str() as name, float() | int() as value]} if isfinite(value):
                    self._report_metric(name, value)
                case {"log": [int() as level, str() as text]}:
                    self._log(level, text)
                case {"checkpoint": dict() as state}:
                    self._save_checkpoint(state)
                case {"store": {"act": str(), "zone": str(), "name": str()} as call}:
                    self._ask_broker(call)
                case {"threads": True}:
                    self.threads.take(self._file_that_came())
                case {"result": dict() as result}:
                    return TryAnswer(result)
                case {"error": {"code": str() as code, "message": str() as text}}:
                    return TryAnswer(error=TELLABLE.get(code, HandlerError)(redact(text)))
                case _:
                    raise Crashed("The handler's process said what no handler says.")
        except Unheard as error:
            raise Crashed(str(error)) from None
        return None

    def _report_metric(self, name: str, value: float) -> None:
        """Report a metric. Only so many names are taken from one try."""
        self._measured |= {name} if len(self._measured) < MOST_METRICS and len(name) <= LONGEST_METRIC else set()
        if name in self._measured:
            self.listeners.metric(name, value)

    def _log(self, level: int, text: str) -> None:
        """Log a line in this thread, which knows whose run it is. The child's own bounds are not relied on."""
        self._lines += 1
        if self._lines <= MOST_LINES + 1:  # the last one says that there were more
            log.log(min(max(level, logging.DEBUG), logging.ERROR), "%s", redact(text[:LONGEST_LINE]))

    def _save_checkpoint(self, state: dict[str, Any]) -> None:
        """Save the checkpoint and acknowledge it, so that the handler never goes on from what could be lost."""
        fault = None
        try:
            self.listeners.checkpoint.save(state)
        except Exception as error:  # noqa: BLE001 - the handler decides what a lost checkpoint means
            fault = f"{type(error).__name__}: {error}"
        self.tell({"saved": fault})

    def _ask_broker(self, call: Mapping[str, Any]) -> None:
        file = self._file_that_came()
        if self.broker is None:
            close_quietly(file)
        else:
            self.broker.take(call, file)

    def _file_that_came(self) -> int | None:
        file, self._file = self._file, None
        return file

    def close(self) -> None:
        """Let go of what came without a call, and of the try's threads."""
        self.threads.close()
        close_quietly(self._file_that_came())

    def tell(self, message: dict[str, Any], file: int | None = None) -> None:
        """Send a message. Who watches the try calls this, and who answers its calls and may hand over a file."""
        content = json.dumps(message).encode() + b"\n"
        with self._telling, suppress(OSError):  # it is gone: that shows where we listen
            sent = socket.send_fds(self.channel, [content], [file]) if file is not None else 0
            self.channel.sendall(content[sent:])


@dataclass(frozen=True)
class TryAnswer:
    """How the handler ended."""

    value: dict[str, Any] = field(default_factory=dict)
    error: HandlerError | None = None

    def result(self) -> dict[str, Any]:
        if self.error:
            raise self.error
        return self.value


def _received(channel: socket.socket) -> tuple[bytes, int | None]:
    """What has come, empty at the end, however it came about; and the open file that came with it."""
    try:
        content, files, _, _ = socket.recv_fds(channel, CHUNK, 1, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:  # it died with something unread
        return b"", None
    for more in files[1:]:
        close_quietly(more)
    return content, files[0] if files else None


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
