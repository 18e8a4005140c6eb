"""A stack under the engine's fault tests: runs started by hand, what they have done so far, and ways to break it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployments.stack.owner import tied
from flows.memory.ledger import read
from flows.storage import LocalStore
from tests.flows.traces import read_marks
from tests.support import clock
from tests.support.cluster import open_folder
from tests.support.stack import RunningStack, with_workflows

# Where waiting is only waiting it is shortened; the factors are printed with the results.
PATIENCE = {
    "CAIRN_HEARTBEAT_SECONDS": "1",
    "CAIRN_CHILD_SILENCE_SECONDS": "10",
    "CAIRN_ATTEMPT_LOST_SECONDS": "10",
    "CAIRN_START_SECONDS": "30",
    "CAIRN_RECONCILE_SECONDS": "2",
    "CAIRN_ATTEMPT_PAUSE_SECONDS": "1",
}
SCALES = (
    "heartbeat 10 s -> 1 s, attempt lost 90 s -> 10 s, start 120 s -> 30 s, "
    "child silent 60 s -> 10 s, sweep 15 s -> 2 s"
)
# How much shorter outages of Prefect are than they are said to be, where long ones are asked for.
OUTAGE_FACTOR = float(os.environ.get("CAIRN_OUTAGE_FACTOR", "30")) if os.environ.get("CAIRN_OUTAGE_RUNS") else 1.0
END_SECONDS = 240.0
ANSWER_SECONDS = 3.0  # in which a busy Prefect answers
# Wakes what a test holds still, be it that the test is killed: a supervisor then sees that its owner is gone.
THAW = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
signal.sigwait({signal.SIGTERM})
for pid in sys.argv[1:]:
    os.kill(int(pid), signal.SIGCONT)
"""
POOLS = ("light", "gdal")
OPEN = ("pending", "running")


def items_workflow(pool: str) -> str:
    """A fan-out on the pool, after a node on the light one: on gdal, the run waits while its children work."""
    return f"""
workflow_id: items_{pool}
version: 1
inputs: {{count: {{type: integer, default: 20}}, seconds: {{type: number, default: 0.5}}}}
nodes:
  start: {{type: start, next: first}}
  first: {{handler: scripted, next: each}}
  each:
    type: fan_out
    source: "{{{{ [0] * inputs.count }}}}"
    max_concurrency: 4
    task:
      handler: scripted
      queue: {pool}
      params: {{seconds: "{{{{ inputs.seconds }}}}", returns: "{{{{ index }}}}"}}
    next: all
  all: {{type: fan_in, next: end}}
  end: {{type: end}}
outputs: {{results: "{{{{ nodes.all.output.results }}}}"}}
"""


@dataclass
class Trial:
    """The stack, and the runs that were started on it."""

    stack: RunningStack
    runs: list[str] = field(default_factory=list)

    @property
    def store(self) -> LocalStore:
        return LocalStore(self.stack.folder / "storage" / "runs")

    def start(self, workflow_id: str, **inputs: Any) -> str:
        """Have the domain run it."""
        body = {"workflow_id": workflow_id, "inputs": inputs}
        with self.stack.operator() as http:
            run_id = str(http.post("/api/v1/runs", json=body).raise_for_status().json()["run_id"])
        self.runs.append(run_id)
        return run_id

    def state(self, run_id: str) -> str:
        [(state,)] = self.stack.rows("select state from app.runs where run_id = %s", run_id)
        return str(state)

    def attempts(self, run_id: str) -> list[str]:
        rows = self.stack.rows("select state from app.attempts where run_id = %s order by number", run_id)
        return [str(state) for (state,) in rows]

    def losses(self, run_ids: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
        """What was told of attempts that did not hand in the outcome, and why."""
        query = "select kind, details from app.events where run_id = any(%s::uuid[]) and kind like 'attempt.%%'"
        return [(kind, details) for kind, details in self.stack.rows(query, list(run_ids))]

    def record(self, run_id: str) -> dict[str, Any]:
        with self.stack.operator() as http:
            found: dict[str, Any] = http.get(f"/api/v1/runs/{run_id}").raise_for_status().json()
        return found

    def marks(self, run_id: str) -> dict[str, list[dict[str, Any]]]:
        return read_marks(self.store.root, run_id)

    def begun(self, run_ids: Iterable[str]) -> int:
        """How many items of these runs have begun."""
        return sum(name.startswith("each__") for run_id in run_ids for name in self.marks(run_id))

    def succeeded(self, run_id: str) -> set[int]:
        """The items that the run's ledger holds as done."""
        entries = read(self.store, f"{run_id}/m1", "each")
        return {entry.index for entry in entries if entry.is_completed and entry.index is not None}

    def until_ended(self, run_ids: Iterable[str]) -> dict[str, str]:
        """How each of them ended."""
        wanted = list(run_ids)
        until(lambda: not any(self.state(run_id) in OPEN for run_id in wanted), END_SECONDS)
        return {run_id: self.state(run_id) for run_id in wanted}

    # --- breaking ---

    def service(self, name: str) -> int:
        pid: int = self.stack.facts()["services"][name]["pid"]
        return pid

    def until_whole(self) -> None:
        """Wait until every service is up again: after many kills the next start of each waits for half a minute.

        Prefect takes a worker for ready that was killed a moment ago; one that has its zygote is.
        """

        def whole() -> bool:
            services, living = self.stack.facts()["services"], parents()
            up = all(made["step"] or (made["state"] == "ready" and made["pid"] in living) for made in services.values())
            started = (pid for pid, parent in living.items() if parent == services["worker-gdal"]["pid"])
            return up and any("deployments.warm.zygote" in command(pid) for pid in started)

        until(whole, 120)

    def kill_services(self, *names: str) -> None:
        for name in names:
            kill(self.service(name))

    def flow_processes(self, run_ids: Iterable[str]) -> set[int]:
        """The processes in which items of these runs are at work."""
        marks = (mark for run_id in run_ids for made in self.marks(run_id).values() for mark in made)
        return {int(mark["pid"]) for mark in marks if "ended" not in mark}

    @contextmanager
    def held_down(self, name: str) -> Iterator[None]:
        """The service is killed and stays down while the block runs: who would start it again stands still."""
        supervisor = self.stack.facts()["supervisor_pid"]
        with subprocess.Popen(tied(sys.executable, "-c", THAW, supervisor, by="TERM")) as waking:
            os.kill(supervisor, signal.SIGSTOP)
            try:
                self.kill_services(name)
                yield
            finally:
                os.kill(supervisor, signal.SIGCONT)
                waking.terminate()

    @contextmanager
    def silent(self, name: str) -> Iterator[None]:
        """All processes of the service stand still while the block runs: it takes connections and answers nobody."""
        stopped = descendants({self.service(name)})
        with subprocess.Popen(tied(sys.executable, "-c", THAW, *stopped, by="TERM")) as waking:
            try:
                for pid in stopped:
                    os.kill(pid, signal.SIGSTOP)
                yield
            finally:
                waking.terminate()

    def workers(self) -> dict[str, int]:
        """Which processes the workers are."""
        return {name: self.service(name) for name in self.stack.facts()["services"] if name.startswith("worker-")}

    def workers_processes(self) -> set[int]:
        """What workers and zygotes have started, and what these have, as far as it still lives."""
        names = [name for name in self.stack.facts()["services"] if name.startswith(("worker-", "zygote-"))]
        return descendants({self.service(name) for name in names})


def descendants(pids: set[int]) -> set[int]:
    """These processes, and what they have started, and what these have."""
    started_by, found = parents(), set(pids)
    while more := {pid for pid, parent in started_by.items() if parent in found} - found:
        found |= more
    return found


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def command(pid: int) -> str:
    """The command line of a process; empty where it is over."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def parents() -> Mapping[int, int]:
    """The parent of every process that is not a zombie."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            _, _, rest = (folder / "stat").read_text().rpartition(") ")
            state, parent = rest.split()[:2]
            if state != "Z":
                found[int(folder.name)] = int(parent)
    return found


def until(question: Callable[[], bool], seconds: float) -> float:
    """Ask until it is so; returns how long that took."""
    began = time.monotonic()
    clock.until(question, seconds, lambda: f"it did not come true in {seconds:.0f} s")
    return time.monotonic() - began


@contextmanager
def trial(name: str, workflows: Mapping[str, str], prefect_factor: float = 1.0, **settings: str) -> Iterator[Trial]:
    """A stack with these workflows beside the platform's own, and short patience, with Prefect too by this factor."""
    with open_folder(name) as folder:
        made = with_workflows(folder, workflows, **PATIENCE, **settings)
        _scale_clients(made.folder / "prefect", prefect_factor)
        with made.up() as stack:
            yield Trial(stack)


def _scale_clients(home: Path, factor: float) -> None:
    """Have Prefect's clients give up as much sooner, but not so soon that a busy server is taken for one that is away.

    By themselves they ask for seven minutes.
    """
    if factor > 1:
        home.mkdir(parents=True)
        lines = ['active = "scaled"', "[profiles.scaled]"]
        lines += [f'PREFECT_API_REQUEST_TIMEOUT = "{max(ANSWER_SECONDS, 60 / factor):g}"']
        lines += ['PREFECT_CLIENT_MAX_RETRIES = "1"']
        (home / "profiles.toml").write_text("\n".join(lines) + "\n")
