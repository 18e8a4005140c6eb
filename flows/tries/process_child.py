"""The inside of a GDAL try's own process: limited, without secrets, spoken to over one socket.

The order is what standard input holds, the socket is what standard output was. Lines of JSON go both ways: progress,
metrics, log lines, checkpoints and one answer to the flow's process; acknowledgements and the wish to stop from it.
"""

import contextlib
import json
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

from flows.handlers.context import LONGEST_LINE, MOST_LINES, Context
from flows.handlers.errors import TELLABLE, HandlerError, OutOfMemory, Transient
from flows.memory.checkpoint import checked_state
from flows.runs.outages import outage_of
from flows.storage import ZONES, Zones
from flows.storage.brokered import Answered, BrokeredStore
from flows.tries import resource_limits
from flows.tries.confinement import Confinement, fault, own_code

CHUNK = 64 * 1024
LONGEST_MESSAGE = 2000


@dataclass
class Channel:
    """The line to the flow's process."""

    socket: socket.socket
    stop: Event = field(default_factory=Event)
    saved: SimpleQueue[str | None] = field(default_factory=SimpleQueue)
    answers: SimpleQueue[tuple[Mapping[str, Any], int | None]] = field(default_factory=SimpleQueue)
    _sending: Lock = field(default_factory=Lock)
    _asking: Lock = field(default_factory=Lock)

    def tell(self, **message: Any) -> None:
        """Send one message; handlers may have threads of their own."""
        content = json.dumps(message).encode() + b"\n"
        with self._sending:
            self.socket.sendall(content)

    def ask(self, call: dict[str, Any], file: int | None = None) -> Answered:
        """Have the flow's process do something with storage, with this open file, and wait for what comes of it."""
        content = json.dumps({"store": call}).encode() + b"\n"
        with self._asking:
            with self._sending:
                sent = socket.send_fds(self.socket, [content], [file]) if file is not None else 0
                self.socket.sendall(content[sent:])
            answer, handed = self.answers.get()
        if refused := answer.get("refused"):
            raise TELLABLE.get(refused["code"], HandlerError)(refused["message"])
        return Answered(answer["stored"], handed)

    def hand_over_threads(self, listener: int) -> None:
        """Give away the say over how many threads this process has. Before anybody could have taken it over."""
        socket.send_fds(self.socket, [b'{"threads": true}\n'], [listener])

    def hear(self) -> None:
        """Take what comes until the other end is gone. Without it this process has nobody to work for."""
        unfinished, handed = b"", None
        with contextlib.suppress(OSError):
            while True:
                content, files, _, _ = socket.recv_fds(self.socket, CHUNK, 1, socket.MSG_CMSG_CLOEXEC)
                if not content:
                    break
                handed = files[0] if files else handed
                *lines, unfinished = (unfinished + content).split(b"\n")
                for line in lines:
                    handed = self._take(json.loads(line), handed)
        os.killpg(0, signal.SIGKILL)

    def _take(self, message: Mapping[str, Any], handed: int | None) -> int | None:
        """Pass it on to who waits for it. What was handed over goes with the answer, for there is one at a time."""
        if "saved" in message:
            self.saved.put(message["saved"])
        elif "stored" in message or "refused" in message:
            self.answers.put((message, handed))
            return None
        else:
            self.stop.set()
        return handed


class SentLines(logging.Handler):
    """What the handler logs, told to the flow's process: there its lines are those of the run."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel, self._left = channel, MOST_LINES

    def emit(self, record: logging.LogRecord) -> None:
        """Called under the handler's lock."""
        if self._left < 0:
            return
        self._left -= 1
        try:
            text = (
                self.format(record)[:LONGEST_LINE]
                if self._left >= 0
                else f"No more than {MOST_LINES:,} lines are kept."
            )
            self._channel.tell(log=[record.levelno, text])
        except Exception:  # noqa: BLE001 - a line that cannot be told fails no handler
            self.handleError(record)


@dataclass
class SentCheckpoint:
    """A checkpoint that the flow's process keeps: this one has no storage of its own to trust."""

    channel: Channel
    state: dict[str, object] | None
    _turn: Lock = field(default_factory=Lock)

    def load(self) -> dict[str, object] | None:
        return self.state

    def save(self, state: dict[str, object]) -> None:
        """Wait until it is stored."""
        checked_state(state)
        with self._turn:
            self.channel.tell(checkpoint=state)
            if fault := self.channel.saved.get():
                raise Transient(f"The checkpoint could not be stored: {fault}")
            self.state = state


def main() -> None:
    """A fresh interpreter: the order is all that standard input holds."""
    with os.fdopen(os.dup(0), "rb") as stdin:
        order = json.load(stdin)
    run_ordered_try(order)
    os._exit(0)  # GDAL has nothing worth a farewell, and its farewells have been known to crash


def run_ordered_try(order: Mapping[str, Any]) -> None:
    """Run the ordered try in this process and answer. Whoever calls this ends the process afterwards."""
    channel = Channel(socket.socket(fileno=os.dup(1)))
    _close_standard_streams()
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["workdir"])
    tempfile.tempdir = None  # a fork may have looked it up under another environment
    resource_limits.limit(order["limits"])
    if order.get("debug_port") is not None:
        from flows.tries.debugging import wait_for_debugger

        wait_for_debugger(order["debug_port"])
    lacking = confine(order, channel)
    signal.signal(signal.SIGTERM, lambda *_: channel.stop.set())
    Thread(target=channel.hear, name="hear", daemon=True).start()
    _log_to(SentLines(channel))
    answer = _failure(HandlerError(lacking)) if lacking else _answer(order, channel)
    sys.stdout.flush()
    channel.tell(**answer)


def _close_standard_streams() -> None:
    """Whatever a library prints goes to the flow's log and never mixes with the answers."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)


def _log_to(lines: SentLines) -> None:
    """Our own loggers only: what libraries say goes to standard error, as GDAL's complaints do."""
    ours = logging.getLogger("cairn")
    ours.handlers, ours.propagate = [lines], False
    ours.setLevel(logging.INFO)


def confine(order: Mapping[str, Any], channel: Channel) -> str | None:
    """Keep to the workdir from here on; returns why the try must not go on, if so. Before any thread."""
    from flows.handlers.registry import registry
    from flows.tries.one_try import Try  # noqa: F401 - loaded while the folder above our packages can still be looked through

    registry()
    if order["confinement"] == "off":
        return None
    held = Confinement(own_code(), [order["workdir"]]).take_hold(channel.hand_over_threads)
    return fault(held) if order["confinement"] == "required" else None


def _answer(order: Mapping[str, Any], channel: Channel) -> dict[str, Any]:
    try:
        return {"result": _run(order, channel)}
    except MemoryError:
        return _failure(OutOfMemory(f"The try needed more than its {order['limits']['memory_mb']:,} MB of memory."))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it was, the flow must hear of it
        return _failure(error)


def _run(order: Mapping[str, Any], channel: Channel) -> dict[str, Any]:
    from flows.handlers.registry import registry
    from flows.tries.one_try import Try, call_handler, check_params, facts_of

    attempt = Try.from_json(order["try"])
    handler = registry()[attempt.handler]
    context = Context(
        **facts_of(attempt),
        storage=Zones(**{zone: BrokeredStore(zone, channel.ask) for zone in ZONES}),
        workdir=Path(order["workdir"]),
        checkpoint=SentCheckpoint(channel, order["checkpoint"]),
        progress=lambda fraction, message: channel.tell(progress=[fraction, message]),
        metric=lambda name, value: channel.tell(metric=[name, value]),
        stop_event=channel.stop,
    )
    return call_handler(handler, check_params(handler, attempt.params), context)


def _failure(error: BaseException) -> dict[str, Any]:
    if isinstance(error, HandlerError):
        return {"error": {"code": error.code, "message": str(error)[:LONGEST_MESSAGE]}}
    if away := outage_of(error):
        return {"error": {"code": away.code, "message": str(away)}}
    message = f"{type(error).__name__}: {error}"[:LONGEST_MESSAGE]
    return {"error": {"code": HandlerError.code, "message": message}}


if __name__ == "__main__":
    main()
