"""A process that draws heavy pictures, one after the other: `python -m gateway.serving.drawing BYTES NICE`.

It lets everybody else go first, may take so many bytes beside what it begins with, and knows no reader, no database
and no credential. Orders come in at its standard input, and it ends with that. What takes long to import is imported
below, so that the importing lets others go first too.
"""

import asyncio
import contextlib
import logging
import os
import re
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

    from gateway.serving.drawing_orders import Drawn, Order

_FIRST_TO_GO: Final = "1000"  # when a machine runs out of memory
_BESIDE_BYTES: Final = 128 * 1024**2  # threads and their stacks, hardly any of it used
_log = logging.getLogger("cairn.serving")


def step_aside(niceness: int) -> None:
    """Take what others leave of the processors, and be the first to go where memory ends.

    Some kernels share processors among sessions first: a process is nice to its own only, unless its session is too.
    """
    os.nice(niceness)
    for name, value in (("autogroup", str(niceness)), ("oom_score_adj", _FIRST_TO_GO)):
        with contextlib.suppress(OSError):
            Path("/proc/self", name).write_text(value)


def take_at_most(more_bytes: int) -> None:
    """Bound the memory of this process: whatever needs more fails as it would on a machine that has no more."""
    told = re.search(r"VmData:\s+(\d+) kB", Path("/proc/self/status").read_text())
    most = (int(told[1]) * 1024 if told else 0) + more_bytes + _BESIDE_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def draw_all(app: "ASGIApp", orders: BinaryIO, answers: BinaryIO) -> None:
    """Draw what is ordered, until nobody orders any more."""
    from gateway.serving.drawing_orders import READY, Order

    answers.write(READY)
    answers.flush()
    with asyncio.Runner() as runner:
        while line := orders.readline():
            head, body = runner.run(drawn(app, Order.model_validate_json(line)))
            answers.write(head.model_dump_json().encode() + b"\n")
            answers.write(body)
            answers.flush()


async def drawn(app: "ASGIApp", order: "Order") -> "tuple[Drawn, bytes]":
    """The application's answer, made to its end."""
    from gateway.serving.drawing_orders import Drawn

    sent: list[Message] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: "Message") -> None:
        sent.append(message)

    try:
        await app(_scope(order), receive, send)
    except Exception as error:  # noqa: BLE001 - it has been answered as a fault of ours
        _log.error("a picture could not be drawn", exc_info=error)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    told = {name.decode().lower(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    told.pop("content-length", None)
    return Drawn(status=sent[0]["status"], headers=told, size_bytes=len(body)), body


def _scope(order: "Order") -> dict[str, Any]:
    """What a server would say of such a request."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": order.path,
        "raw_path": order.path.encode(),
        "query_string": order.query.encode("latin-1"),
        "root_path": "",
        "headers": [],
        "client": None,
        "server": ("drawing", 80),
        "state": {"order": order},
    }


def main() -> None:
    """Serve whoever started this process."""
    most_bytes, niceness = map(int, sys.argv[1:])
    step_aside(niceness)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    from domain.shared import logs
    from gateway.serving.tiles import drawing_app

    logs.configure("serving")
    app = drawing_app()
    take_at_most(most_bytes)
    draw_all(app, sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
