"""What a process worker starts for each flow run: hands it to the zygote, and is its stand-in until it ends.

Run by a bare interpreter (`python -I -S`), so that starting it costs nothing: standard library only, no package of
ours. Where no zygote answers, it becomes the ordinary engine.
"""

import array
import contextlib
import json
import os
import signal
import socket
import struct
import sys

ADDRESS = "CAIRN_ZYGOTE"
ANSWER_SECONDS = 10.0
PASSED_ON = (signal.SIGTERM, signal.SIGINT)


def main() -> None:
    """Have the zygote fork the flow run, pass signals on, and end as it ends."""
    # A signal that comes before there is somebody to pass it on to waits until there is.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    zygote = _connect()
    pid = _ask(zygote) if zygote else None
    if zygote is None or pid is None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        os.execv(sys.executable, [sys.executable, "-m", "prefect.engine"])  # noqa: S606 - our own interpreter
    for number in PASSED_ON:
        signal.signal(number, lambda received, _frame: _pass_on(pid, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    zygote.settimeout(None)
    answer = _line(zygote)
    # No answer: the zygote died, and its child with it.
    _end_as(json.loads(answer)["exit"] if answer else -signal.SIGKILL)


def _connect() -> "socket.socket | None":
    """The zygote of this worker, if it runs as the same user: it is about to be given our environment."""
    name = os.environ.get(ADDRESS)
    if not name:
        return None
    zygote = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    zygote.settimeout(ANSWER_SECONDS)
    try:
        zygote.connect("\0" + name)
    except OSError:
        return None
    return zygote if peer_uid(zygote) == os.getuid() else None


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end, as the kernel knows it."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def _ask(zygote: socket.socket) -> "int | None":
    """Hand over environment, folder and the three standard streams; the pid of the fork, or None if refused."""
    folder = os.getcwd()  # noqa: PTH109 - pathlib takes longer to load than we live
    order = json.dumps({"environment": dict(os.environ), "folder": folder}).encode()
    streams = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
    try:
        zygote.sendmsg([struct.pack("!I", len(order))], streams)
        zygote.sendall(order)
        answer = _line(zygote)
    except OSError:
        return None
    return json.loads(answer).get("pid") if answer else None


def _line(zygote: socket.socket) -> bytes:
    """One line of the zygote's answer; empty where it is gone."""
    received = b""
    with contextlib.suppress(InterruptedError):
        while not received.endswith(b"\n"):
            byte = zygote.recv(1)  # a line at a time: the next one comes when the run ends
            if not byte:
                return b""
            received += byte
    return received


def _pass_on(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _end_as(code: int) -> None:
    """End with the run's exit code, or by the signal that ended it, so that the worker sees what happened."""
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
