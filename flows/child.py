"""A try in a process of its own, without secrets, that can be killed: how GDAL handlers run.

The parent sends one JSON line and reads JSON lines back: progress, then a result or an error. A crash of the child is
one failed try.
"""

import contextlib
import ctypes
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event
from typing import IO, TYPE_CHECKING, Any

from flows.errors import HandlerError, InvalidInput, Stopped, Transient
from flows.storage import LocalStore, Zones

if TYPE_CHECKING:
    from flows.tries import Progress, Try

STOP_SECONDS = 10.0
POLL_SECONDS = 0.2
MEMORY_BYTES = 8 * 2**30
PASSED_ON = ("PATH", "LANG", "TZ", "TMPDIR")
PR_SET_PDEATHSIG = 1


class Crashed(HandlerError):
    """The child ended without an answer: GDAL crashed, or the kernel took its memory away."""

    code = "handler-crashed"


class TimedOut(HandlerError):
    """The try took longer than it may."""

    code = "timeout"


def run(attempt: "Try", zones: Zones, stop: Event, progress: "Progress") -> dict[str, Any]:
    """Run the try in a child process and return its result."""
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None,  # GDAL's own complaints go to the flow run's log
        env=_environment(),
        start_new_session=True,
    )
    try:
        _send(process, attempt, zones)
        return _listen(process, attempt.timeout_seconds, stop, progress)
    finally:
        _end(process)


def _environment() -> dict[str, str]:
    """Nothing of Prefect, the domain or any storage credential reaches the child."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def _send(process: subprocess.Popen[bytes], attempt: "Try", zones: Zones) -> None:
    roots = {}
    for zone in ("bronze", "silver", "external", "runs"):
        store = getattr(zones, zone)
        if not isinstance(store, LocalStore):
            raise HandlerError(f"GDAL handlers read local zones only; {zone} is a {type(store).__name__}.")
        roots[zone] = str(store.root)
    order = {
        "node_id": attempt.node_id,
        "handler": attempt.handler,
        "params": dict(attempt.params),
        "facts": attempt.facts.model_dump(mode="json"),
        "timeout_seconds": attempt.timeout_seconds,
        "item_key": attempt.item_key,
        "number": attempt.number,
    }
    assert process.stdin is not None  # noqa: S101 - opened as a pipe
    with contextlib.suppress(BrokenPipeError):  # it died at once: its silence is judged below
        process.stdin.write(json.dumps({"try": order, "roots": roots}).encode() + b"\n")
        process.stdin.close()


def _listen(
    process: subprocess.Popen[bytes], timeout_seconds: float, stop: Event, progress: "Progress"
) -> dict[str, Any]:
    """Read until the answer; ask the child to leave when the run stops or time is up."""
    assert process.stdout is not None  # noqa: S101 - opened as a pipe
    deadline = time.monotonic() + timeout_seconds
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if stop.is_set():
                raise Stopped("The run was asked to stop.")
            if time.monotonic() > deadline:
                raise TimedOut(f"The try took longer than its {timeout_seconds:.0f} s.")
            if not selector.select(POLL_SECONDS):
                continue
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                raise Crashed(f"The handler's process ended without an answer (exit code {process.wait()}).")
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                if (answer := _take(json.loads(line), progress)) is not None:
                    return answer


def _take(message: dict[str, Any], progress: "Progress") -> dict[str, Any] | None:
    if "progress" in message:
        progress(*message["progress"])
        return None
    if "error" in message:
        raise _error(**message["error"])
    result: dict[str, Any] = message["result"]
    return result


def _error(kind: str, message: str) -> HandlerError:
    known = {"invalid": InvalidInput, "transient": Transient, "stopped": Stopped}
    return known.get(kind, HandlerError)(message)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave no child behind: asked first, killed if it stays, with everything it started."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


# --- the child's side ---


def main() -> None:
    """Read the order, run the try, answer on what was standard output."""
    _limit()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints must not mix with the answers
    order = json.loads(sys.stdin.readline())
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    answer = _answer(order, stop, answers)
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _limit() -> None:
    """Die with the parent, dump no core, take no more memory than a worker can spare."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _answer(order: dict[str, Any], stop: Event, answers: IO[str]) -> dict[str, Any]:
    from domain.contracts.runs import RunFacts
    from flows.tries import Try, run_here

    attempt = Try(**{**order["try"], "facts": RunFacts.model_validate(order["try"]["facts"])})
    zones = Zones(**{zone: LocalStore(Path(root)) for zone, root in order["roots"].items()})

    def progress(fraction: float, message: str) -> None:
        answers.write(json.dumps({"progress": [fraction, message]}) + "\n")

    try:
        return {"result": run_here(attempt, zones, stop, progress)}
    except InvalidInput as error:
        return _failure("invalid", error)
    except Transient as error:
        return _failure("transient", error)
    except Stopped as error:
        return _failure("stopped", error)
    except Exception as error:  # noqa: BLE001 - whatever it was, the parent must hear of it
        return _failure("other", error)


def _failure(kind: str, error: Exception) -> dict[str, Any]:
    text = str(error) if isinstance(error, HandlerError) else f"{type(error).__name__}: {error}"
    return {"error": {"kind": kind, "message": text[:2000]}}


if __name__ == "__main__":
    main()
