"""The zygote: a single-threaded process that has imported Prefect and our flows, and forks a copy for each flow run.

It holds no credential: each fork gets its environment from its launcher. It opens no connection, event loop or
dataset before a fork. When the code it has imported changes, it refuses new runs, waits for those it has, and ends, to
be started anew; launchers start their runs cold meanwhile.
"""

import contextlib
import ctypes
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import threading
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from deployments.warm.launcher import ADDRESS, peer_uid

REPOSITORY = Path(__file__).resolve().parent.parent.parent
IMPORTED = ("flows", "blocks", "domain/contracts", "deployments/warm")
PRELOADED = (
    "prefect.engine", "prefect.flow_engine", "prefect.task_engine", "prefect.task_runners", "prefect.runtime",
    "prefect.client.orchestration", "prefect._internal.metrics", "prefect.events.worker", "prefect.logging.handlers",
    "flows.catalog", "flows.child", "httpx", "websockets",
)  # fmt: skip
PR_SET_PDEATHSIG = 1
ORDER_SECONDS = 5.0
LARGEST_ORDER = 4 * 2**20


class NotSingleThreaded(RuntimeError):
    """Forking a process with threads copies their locks but not their holders."""


@dataclass
class Zygote:
    """The listening socket, and which launcher waits for which child."""

    listener: socket.socket
    code: str
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    children: dict[int, socket.socket] = field(default_factory=dict)

    def serve(self) -> None:
        """Fork until told to stop, or until the code is stale and the last child has ended."""
        woken, wake = socket.socketpair()
        for end in (woken, wake):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno())
        self.selector.register(woken, selectors.EVENT_READ, "child")
        self.selector.register(self.listener, selectors.EVENT_READ, "listener")
        while self.listener.fileno() >= 0 or self.children:
            for key, _ in self.selector.select():
                if key.data == "listener":
                    self._accept()
                elif key.data == "child":
                    self._reap(woken)
                else:
                    self._drop(key.data)

    def _accept(self) -> None:
        """One launcher: fork for it, or tell it to start cold."""
        connection, _ = self.listener.accept()
        connection.settimeout(ORDER_SECONDS)
        if code_version() != self.code:
            self._retire(connection)
            return
        try:
            order, streams = _receive(connection)
        except (OSError, ValueError, EOFError):
            connection.close()
            return
        pid = os.fork()
        if pid == 0:
            self._become(order, streams)
        _close(streams)
        self.children[pid] = connection
        # Nothing more is expected of a launcher: whatever comes is its end.
        self.selector.register(connection, selectors.EVENT_READ, pid)
        _tell(connection, {"pid": pid})

    def _retire(self, connection: socket.socket) -> None:
        _tell(connection, {"stale": True})
        connection.close()
        if self.listener.fileno() >= 0:
            self.selector.unregister(self.listener)
            self.listener.close()

    def _reap(self, woken: socket.socket) -> None:
        """Tell launchers how their runs ended. Several deaths may come as one signal."""
        with contextlib.suppress(BlockingIOError):
            woken.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if connection := self.children.pop(pid, None):
                    self.selector.unregister(connection)
                    _tell(connection, {"exit": os.waitstatus_to_exitcode(status)})
                    connection.close()

    def _drop(self, pid: int) -> None:
        """The launcher is gone, killed by its worker: its run must not go on."""
        if connection := self.children.get(pid):
            self.selector.unregister(connection)
            connection.close()
            del self.children[pid]
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _become(self, order: dict[str, Any], streams: list[int]) -> NoReturn:
        """In the fork: be the flow run, and nothing of the zygote."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            self._let_go(streams)
            os.environ.clear()
            os.environ.update(order["environment"])
            os.chdir(order["folder"])
            code = _run_engine()
        except BaseException:  # noqa: BLE001 - nothing may return into the zygote's loop
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _let_go(self, streams: list[int]) -> None:
        """Take the launcher's streams for ours; close the listener and the lines to other launchers."""
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        self.selector.close()
        self.listener.close()
        for connection in self.children.values():
            connection.close()


def _run_engine() -> int:
    """Prefect's engine, as `python -m prefect.engine` would run it, under this environment's settings."""
    from prefect.context import refresh_global_settings_context

    refresh_global_settings_context()
    sys.argv = ["prefect.engine"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that the module is imported already is the point
        try:
            runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A launcher's order and its three streams, if it runs as the same user."""
    if peer_uid(connection) != os.getuid():
        raise ValueError("another user")
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    if len(head) != 4 or len(streams) != 3:  # somebody who only looked whether we listen
        _close(streams)
        raise ValueError("not a launcher's order")
    try:
        return json.loads(_content(connection, *struct.unpack("!I", head))), streams
    except (OSError, ValueError, EOFError):
        _close(streams)
        raise


def _close(streams: list[int]) -> None:
    for stream in streams:
        os.close(stream)


def _content(connection: socket.socket, length: int) -> bytes:
    """Exactly so many bytes."""
    if length > LARGEST_ORDER:
        raise ValueError("not a launcher's order")
    content = bytearray()
    while len(content) < length:
        chunk = connection.recv(length - len(content))
        if not chunk:
            raise EOFError
        content += chunk
    return bytes(content)


def _tell(connection: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(message).encode() + b"\n")


def code_version() -> str:
    """Changes when any file that the zygote has imported changes."""
    files = (path for folder in IMPORTED for path in (REPOSITORY / folder).rglob("*.py"))
    return json.dumps(sorted((str(path), path.stat().st_mtime_ns) for path in files))


def listen(name: str) -> socket.socket:
    """An abstract socket: it is gone with its holder, and no file is left."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind("\0" + name)
    listener.listen(64)
    return listener


def main() -> None:
    """Import everything, then serve at the address in CAIRN_ZYGOTE."""
    code = code_version()
    for name in PRELOADED:
        __import__(name)
    if threading.active_count() > 1 or len(list(Path("/proc/self/task").iterdir())) > 1:
        raise NotSingleThreaded(f"Imports started threads: {threading.enumerate()}")
    Zygote(listen(os.environ[ADDRESS]), code).serve()


if __name__ == "__main__":
    main()
