"""Stands in for a flow run that the zygote forks: a process worker starts it and waits for its end.

Run by a bare interpreter (`python -I -S`), so that starting it costs nothing: standard library only, and of ours the
one file that needs no more. Where no zygote answers, it becomes the ordinary engine.
"""

import contextlib
import os
import signal
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120 - pathlib takes longer to load than we live

from flows.tries import fork_client

PASSED_ON = (signal.SIGTERM, signal.SIGINT)


def main() -> None:
    """Have the zygote fork the flow run, pass signals on, and end as it ends."""
    # What the terminal says at a Ctrl-C is for the worker, which tells us what it wants.
    with contextlib.suppress(PermissionError):  # we lead a group already
        os.setsid()
    # A signal that comes before there is somebody to pass it on to waits until there is.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    zygote = fork_client.connect_to_zygote(os.environ.get(fork_client.ADDRESS))
    order = {"environment": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109 - as above
    pid = fork_client.ask_for_fork(zygote, fork_client.FLOW, order, (0, 1, 2)) if zygote else None
    if zygote is None or pid is None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        os.execv(sys.executable, [sys.executable, "-m", "prefect.engine"])  # noqa: S606 - our own interpreter
    for number in PASSED_ON:
        signal.signal(number, lambda received, _frame: _pass_on(pid, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    code = fork_client.exit_code(zygote)
    _end_as(-signal.SIGKILL if code is None else code)


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
