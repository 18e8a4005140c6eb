"""A way to a server on this machine that tests close and open: while it is closed, connections end at once."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

PIECE = 65536


@dataclass
class Gate:
    """Passes bytes on to the port while it is open."""

    to_port: int
    is_open: bool = True
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _through: set[socket.socket] = field(default_factory=set)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def open(self) -> None:
        self.is_open = True

    def close(self) -> None:
        """Nobody comes through any more, nor does who is through already."""
        self.is_open = False
        for one in list(self._through):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def serve(self) -> None:
        """Until the listener is closed."""
        with suppress(OSError):
            while True:
                came, _ = self._listener.accept()
                if not self.is_open:
                    came.close()
                    continue
                there = socket.create_connection(("127.0.0.1", self.to_port))
                for one, other in ((came, there), (there, came)):
                    self._through.add(one)
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while piece := one.recv(PIECE):
                other.sendall(piece)
        self._through.discard(one)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        one.close()

    def end(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.close()


@contextmanager
def gate_to(port: int) -> Iterator[Gate]:
    """A gate, open at first."""
    gate = Gate(port)
    threading.Thread(target=gate.serve, daemon=True).start()
    try:
        yield gate
    finally:
        gate.end()
