"""Reads a blob by ranges over a local socket: how a GDAL try reads remote blobs. Holds both ends.

The line is one end of a pair of sockets, handed over open. Whoever holds it reads that one blob and asks for nothing
else, so the process needs neither a network nor a credential. A question is a place and a length; an answer its bytes,
or why there are none.
"""

import json
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from flows.handlers.errors import TELLABLE, HandlerError, Transient
from flows.storage.readers import Closing, Reader

QUESTION: Final = struct.Struct(">QQ")
ANSWER: Final = struct.Struct(">BQ")
BYTES, REFUSAL = 0, 1
# What one answer holds at most; of more, the rest is asked for again.
LONGEST_ANSWER: Final = 8 * 1024 * 1024


@dataclass
class LineReader(Closing):
    """The blob at the other end of the line."""

    line: socket.socket
    size_bytes: int
    descriptor: None = None
    version: str = ""  # is the other end's to know
    _turn: Lock = field(default_factory=Lock)

    def read(self, start: int, length: int) -> bytes:
        length = min(length, self.size_bytes - start)
        pieces = []
        while length > 0 and (piece := self._ask(start, min(length, LONGEST_ANSWER))):
            pieces.append(piece)
            start, length = start + len(piece), length - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _ask(self, start: int, length: int) -> bytes:
        with self._turn:
            try:
                self.line.sendall(QUESTION.pack(start, length))
                kind, size = ANSWER.unpack(receive_exactly(self.line, ANSWER.size))
                content = receive_exactly(self.line, size)
            except (OSError, struct.error):
                raise Transient("The flow's process reads nothing for this try any more.") from None
        if kind == BYTES:
            return content
        refused = json.loads(content)
        raise TELLABLE.get(refused["code"], HandlerError)(refused["message"])

    def close(self) -> None:
        self.line.close()


def serve(line: socket.socket, blob: Reader, check: Callable[[], None]) -> None:
    """Answer until the other end closes. Its questions are a stranger's, so each answer is bounded."""
    with line, blob, suppress(OSError):
        while question := receive_exactly(line, QUESTION.size):
            start, length = QUESTION.unpack(question)
            kind, content = _answer(blob, start, length, check)
            line.sendall(ANSWER.pack(kind, len(content)))
            line.sendall(content)


def _answer(blob: Reader, start: int, length: int, check: Callable[[], None]) -> tuple[int, bytes]:
    try:
        check()
        return BYTES, blob.read(start, min(length, LONGEST_ANSWER)) if start < blob.size_bytes else b""
    except HandlerError as error:
        refused = {"code": error.code, "message": str(error)}
    except Exception as error:  # noqa: BLE001 - the reader must hear of it, and the line lives on
        refused = {"code": HandlerError.code, "message": type(error).__name__}
    return REFUSAL, json.dumps(refused).encode()


def receive_exactly(line: socket.socket, size: int) -> bytes:
    """Receive this many bytes; none where the other end closes before."""
    content, at = bytearray(size), 0
    view = memoryview(content)
    while at < size:
        got = line.recv_into(view[at:])
        if not got:
            return b""
        at += got
    return bytes(content)
