"""The zygote: a single-threaded process that has imported Prefect and our flows, and forks copies of itself.

A fork becomes a flow run, for a launcher, or a GDAL try, for a flow. The zygote holds no credential: it starts itself
anew without the variables it does not need, and never reads an order, only its forks do. It takes orders from its
worker, the worker's launchers and the flow runs forked here, as the kernel knows them: a secret that told them apart
would lie in the memory of every fork, of tries too. It opens no connection, event loop or dataset before a fork. When
the code it has imported changes, it refuses new forks, waits for those it has, and ends, to be started anew; runs and
tries start cold meanwhile. It ends with its worker, by SIGKILL, and by no request.
"""

import contextlib
import ctypes
import fcntl
import gc
import json
import logging
import os
import pkgutil
import resource
import runpy
import selectors
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from flows.handlers.registry import registry
from flows.pools import POOLS
from flows.tries import process_child
from flows.tries.fork_client import ADDRESS, FLOW, STREAMS, TRY, peer

REPOSITORY = Path(__file__).resolve().parent.parent.parent
IMPORTED = ("flows", "blocks", "domain/contracts", "domain/rules", "domain/shared", "deployments/warm")
PRELOADED = (
    "prefect.engine", "prefect.flow_engine", "prefect.task_engine", "prefect.task_runners", "prefect.runtime",
    "prefect.client.orchestration", "prefect._internal.metrics", "prefect.events.worker", "prefect.logging.handlers",
    "flows.catalog", "flows.prefect_engine.patient_client", "flows.tries.process_child", "flows.tries.process_parent",
    "httpx", "websockets",
    # What a flow run would import by itself before its first line, found by looking at `sys.modules` there.
    "anyio._backends._asyncio", "anyio.streams.tls", "encodings.idna", "prefect._internal.observers",
    "pydantic.v1.main", "rich._emoji_codes",
)  # fmt: skip
KEPT = (
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    ADDRESS,
    "CAIRN_WORKFLOWS_DIR",
    "CAIRN_STACK",
    "PREFECT_HOME",
)
KEPT_FAMILIES = ("LC_", "PYTHON")
PR_SET_PDEATHSIG = 1
ORDER_SECONDS = 5.0
REFUSED_SECONDS = 0.1

log = logging.getLogger("cairn.zygote")
_held: set[int] = set()  # files that imports opened for good


class NotSingleThreaded(RuntimeError):
    """Forking a process with threads copies their locks but not their holders."""


@dataclass
class Child:
    """A fork, and the connection that waits for its end."""

    kind: bytes
    asker: socket.socket

    def kill(self, pid: int) -> None:
        """Kill the fork now; a try together with all that it started."""
        with contextlib.suppress(ProcessLookupError):
            if self.kind == TRY:
                os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # a try that has no group of its own yet
            os.kill(pid, signal.SIGKILL)


@dataclass
class Zygote:
    """Listens for orders and knows which fork belongs to whom."""

    listener: socket.socket
    code: str
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    children: dict[int, Child] = field(default_factory=dict)
    worker: int = field(default_factory=os.getppid)

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
                    self._kill_fork(key.data)

    def _accept(self) -> None:
        """Fork for one asker, or tell it to do without. A failure concerns this asker only.

        It may have left, or descriptors, processes or memory may have run out for a moment.
        """
        try:
            connection, _ = self.listener.accept()
        except OSError as error:
            _complain("nobody could be let in", error)
            time.sleep(REFUSED_SECONDS)  # whoever asks still waits at the door
            return
        try:
            connection.settimeout(ORDER_SECONDS)
            if code_version() != self.code:
                self._stop_listening(connection)
                return
            self._judge(connection)
            kind, streams = _receive(connection)
        except (OSError, ValueError):
            connection.close()
            return
        try:
            pid = os.fork()
        except OSError as error:
            _complain("nothing could be forked", error)
            _close(streams)
            connection.close()  # who asked starts cold
            return
        if pid == 0:
            _run_in_fork(kind, streams)
        _close(streams)
        self.children[pid] = Child(kind, connection)
        # Nothing more is expected of who asked: whatever comes is its end.
        self.selector.register(connection, selectors.EVENT_READ, pid)
        _send(connection, {"pid": pid})

    def _judge(self, connection: socket.socket) -> None:
        """Accept orders only from the worker, its launchers and flow runs forked here; never from a try."""
        pid, uid = peer(connection)
        child = self.children.get(pid)
        known = child.kind == FLOW if child else self.worker in (pid, _parent_of(pid))
        if uid != os.getuid() or not known:
            log.warning("process %d, which is neither this worker's launcher nor its flow run, was refused", pid)
            raise ValueError("not one of ours")

    def _stop_listening(self, connection: socket.socket) -> None:
        _send(connection, {"stale": True})
        connection.close()
        if self.listener.fileno() >= 0:
            self.selector.unregister(self.listener)
            self.listener.close()

    def _reap(self, woken: socket.socket) -> None:
        """Tell askers how their forks ended. One signal may stand for several deaths."""
        with contextlib.suppress(BlockingIOError):
            woken.recv(4096)
        with contextlib.suppress(ChildProcessError):
            # Looked at before it is reaped: until then its number, and its group's, are nobody else's.
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                child = self.children.pop(ended.si_pid)
                child.kill(ended.si_pid)
                _, status = os.waitpid(ended.si_pid, 0)
                with contextlib.suppress(KeyError):
                    self.selector.unregister(child.asker)
                _send(child.asker, {"exit": os.waitstatus_to_exitcode(status)})
                child.asker.close()

    def _kill_fork(self, pid: int) -> None:
        """Kill the fork whose asker is gone or wants no more. Its end is told when it is reaped."""
        if child := self.children.get(pid):
            self.selector.unregister(child.asker)
            child.kill(pid)


def _run_in_fork(kind: bytes, streams: list[int]) -> NoReturn:
    """Carry the order out in the fork, with nothing left of the zygote."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        code = BECOMES[kind](_keep_streams_only(streams))
    except BaseException:  # noqa: BLE001 - nothing may return into the zygote's loop
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _keep_streams_only(streams: list[int]) -> dict[str, Any]:
    """Make the received streams our own, close everything else, and return the order."""
    # Out of each other's way first: one may have come under another's number.
    for number, stream in enumerate([fcntl.fcntl(stream, fcntl.F_DUPFD, STREAMS) for stream in streams]):
        os.dup2(stream, number)
    # The listener, the lines to other askers, whatever a library holds: none of it concerns a fork. Their objects
    # are never collected, because the zygote's frames never end here.
    _close_all_but_held(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    with os.fdopen(STREAMS - 1, "rb") as file:
        order: dict[str, Any] = json.load(file)
    return order


def _close_all_but_held(limit: int) -> None:
    """Close files but those that imports opened: PROJ keeps its database and would misuse a reused number."""
    first = STREAMS
    for held in [*sorted(_held), limit]:
        os.closerange(first, held)
        first = held + 1


def _be_flow(order: dict[str, Any]) -> int:
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    return _run_engine()


def _be_try(order: dict[str, Any]) -> int:
    os.setsid()
    process_child.run_ordered_try(order)
    return 0


BECOMES: dict[bytes, Callable[[dict[str, Any]], int]] = {FLOW: _be_flow, TRY: _be_try}


def _run_engine() -> int:
    """Prefect's engine, as `python -m prefect.engine` would run it, under this environment's settings, and patient."""
    from prefect.context import refresh_global_settings_context

    from flows.prefect_engine.patient_client import be_patient
    from flows.prefect_engine.run_logs import lines_sent

    refresh_global_settings_context()
    be_patient()
    sys.argv = ["prefect.engine"]
    with warnings.catch_warnings(), lines_sent():
        warnings.simplefilter("ignore", RuntimeWarning)  # that the module is imported already is the point
        try:
            runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Receive the kind of fork, its streams and its order."""
    kind, streams, _, _ = socket.recv_fds(connection, 1, STREAMS)
    if kind not in BECOMES or len(streams) != STREAMS:  # somebody who only looked whether we listen
        _close(streams)
        raise ValueError("not an order")
    return kind, streams


def _parent_of(pid: int) -> int:
    """Return the parent as the kernel knows it; 0 where the process is gone."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(status.rpartition(")")[2].split()[1])


def _close(streams: list[int]) -> None:
    for stream in streams:
        os.close(stream)


def _complain(what: str, error: OSError) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"zygote: {what}: {error}\n")


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(message).encode() + b"\n")


def code_version() -> str:
    """Changes when any file that the zygote has imported changes."""
    files = (path for folder in IMPORTED for path in (REPOSITORY / folder).rglob("*.py"))
    return json.dumps(sorted((str(path), path.stat().st_mtime_ns) for path in files))


def listen(name: str) -> socket.socket:
    """Listen on an abstract socket, which is gone with its holder and leaves no file."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind("\0" + name)
    listener.listen(64)
    return listener


def main() -> None:
    """Import what the pool needs, then serve at the address in CAIRN_ZYGOTE."""
    # A service manager tells all of a worker's processes to end at once. Our end is the forks' too: they drain first.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    _forget_environment()
    code = code_version()
    with _low_numbers_taken():
        before = _open_files()
        for name in PRELOADED:
            import_module(name)
        for package in (name for pool in sys.argv[1:] if pool in POOLS for name in POOLS[pool].preloads):
            _import_all_of(package)
        registry()
        _held.update(_open_files() - before)
    if threading.active_count() > 1 or len(list(Path("/proc/self/task").iterdir())) > 1:
        raise NotSingleThreaded(f"Imports started threads: {threading.enumerate()}")
    gc.collect()
    gc.freeze()  # forks share what is here already: their collectors need not touch it
    Zygote(listen(os.environ[ADDRESS]), code).serve()


@contextmanager
def _low_numbers_taken() -> Iterator[None]:
    """Reserve the numbers of a fork's streams while imports open files for good."""
    taken: list[int] = []
    while not taken or taken[-1] < STREAMS:
        taken.append(os.open(os.devnull, os.O_RDONLY))
    yield
    for number in taken:
        os.close(number)


def _open_files() -> set[int]:
    """Return the numbers of open files. Sockets and pipes are not counted: all of them are ours."""
    return {int(link.name) for link in Path("/proc/self/fd").iterdir() if link.is_file()}


def _forget_environment() -> None:
    """Restart with the few needed variables: a process's first ones stay readable in its forks."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_FAMILIES)}
    if kept != dict(os.environ):
        os.execve(sys.executable, sys.orig_argv, kept)  # noqa: S606 - ourselves
    # Their threads would come with the import; Arrow's allocator keeps one of its own.
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    os.environ |= {"JE_ARROW_MALLOC_CONF": "background_thread:false"}


def _import_all_of(package: str) -> None:
    for found in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{found.name}")


if __name__ == "__main__":
    main()
