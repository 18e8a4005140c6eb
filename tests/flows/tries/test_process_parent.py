"""A GDAL try in a process of its own: what it may see, how it ends, and what it leaves behind. Real processes.

Each test runs twice: in a fresh interpreter, and forked by a real zygote.
"""

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from deployments.stack.owner import tied
from domain.contracts.runs import RunFacts
from flows.handlers.context import LOGGER, LONGEST_LINE, MOST_LINES
from flows.handlers.errors import Crashed, HandlerError, OutOfMemory, Stopped, TimedOut
from flows.storage import Zones
from flows.tries import one_try, process_parent, time_budget
from flows.tries.fork_client import ADDRESS
from flows.tries.one_try import Care, Try
from flows.tries.workdir import PREFIX
from tests.support import probes
from tests.support.clock import PATIENCE_SECONDS, Clock
from tests.support.held import held
from tests.support.zygotes import FRESH, Zygote

FACTS = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)


class Run:
    """One try of a probe, and all that was heard of it."""

    def __init__(self, root: Path) -> None:
        self.root, self.stop = root, Event()
        self.once_begun: Callable[[], None] = lambda: None
        self.progress: list[tuple[float, str]] = []
        self.metrics: list[tuple[str, float]] = []

    def __call__(self, what: str, timeout_seconds: float = 30, **params: Any) -> dict[str, Any]:
        one = Try(
            node_id="n",
            handler="probe.gdal",
            params={"what": what, **params},
            facts=FACTS,
            timeout_seconds=timeout_seconds,
            memory="run/m1",
        )
        zones = Zones.local(self.root)
        seen: dict[str, Any] = one_try.run_try(
            one, Care(zones, self.stop, self.hear, lambda *told: self.metrics.append(told))
        )["seen"]
        return seen

    def hear(self, fraction: float, message: str) -> None:
        self.progress.append((fraction, message))
        self.once_begun()

    def remembered(self) -> Any:
        return json.loads((self.root / "runs/run/m1/checkpoints/n.json").read_text())


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    running = Zygote()
    yield running
    running.end()


@pytest.fixture
def run(tmp_path: Path, start: str) -> Run:
    return Run(tmp_path)


def test_a_checkpoint_survives_the_process(run: Run) -> None:
    assert run("phases") == {"phase": 0}
    assert run("phases") == {"phase": 1}
    assert run.remembered() == {"phase": 2}
    assert run.metrics == [("pixels", 12.5)] * 2
    assert run.progress == [(0.5, "half")] * 2


def test_a_handlers_log_lines_are_the_runs(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        run("log", name="abc")
    lines = [(one.levelname, one.getMessage()) for one in caplog.records if one.name == LOGGER]
    assert lines[:2] == [("INFO", "began with abc"), ("WARNING", "password=[redacted]")]
    assert lines[2][0] == "ERROR"
    assert lines[2][1].startswith("went wrong\nTraceback")
    assert "ValueError: invalid literal" in lines[2][1]
    assert lines[3] == ("INFO", "line 0")
    assert len(lines) == MOST_LINES + 1
    assert lines[-1] == ("INFO", "No more than 1,000 lines are kept.")


def test_log_lines_of_a_try_are_bounded_in_number_and_length(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        run("log past all bounds")
    lines = [one for one in caplog.records if one.name == LOGGER]
    assert len(lines) == MOST_LINES + 1
    assert {(one.levelname, len(one.getMessage())) for one in lines} == {("ERROR", LONGEST_LINE)}


def test_a_checkpoint_that_cannot_be_stored_fails_the_handler(run: Run) -> None:
    (run.root / "runs").write_text("a file where the zone's folder should be")
    with pytest.raises(HandlerError, match="could not be stored"):
        run("phases")


def test_process_of_a_try_inherits_no_secret_and_no_open_file(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("CAIRN_WORKER_TOKEN", "PREFECT_API_AUTH_STRING", "CAIRN_DATABASE_URL", "AZURE_CLIENT_SECRET"):
        monkeypatch.setenv(name, "canary")
    with (run.root / "open").open("w"):
        seen = run("look")
    assert "canary" not in json.dumps([seen["environment"], seen["initial"]])
    assert set(seen["environment"]) <= {"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LC_CTYPE"}
    targets = {number: target.partition(":")[0] for number, target in seen["descriptors"].items()}
    assert targets["0"] == "/dev/null"
    assert targets["1"] == targets["2"]
    assert sorted(target for number, target in targets.items() if int(number) > 2) in (
        ["socket"],
        [f"/proc/{seen['pid']}/fd", "socket"],
    )
    assert seen["group"] == seen["pid"]
    out, err = capfd.readouterr()
    assert out == ""
    assert "noise on standard output" in err
    assert "more noise" in err


@pytest.mark.parametrize(
    ("what", "kind", "message"),
    [
        ("segfault", Crashed, "crashed \\(SIGSEGV\\)"),
        ("exit", Crashed, "exit code 7"),
        ("memory", OutOfMemory, "needed more than its 8,192 MB of memory"),
        ("leave python", HandlerError, "SystemExit: handlers do not exit"),
        ("garbage", Crashed, "what is not JSON"),
    ],
)
def test_crash_of_a_handler_is_one_failed_try(run: Run, what: str, kind: type[HandlerError], message: str) -> None:
    with pytest.raises(kind, match=message) as crash:
        run(what)
    assert crash.value.retryable


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("deep", id="nested past what Python reads"),
        pytest.param('{"checkpoint": {"a": ' + "[" * 400 + "]" * 400 + "}}", id="nested past what is written"),
        pytest.param('{"metric": ["pixels", NaN]}', id="not a number"),
        pytest.param('{"progress": [1e999, "far"]}', id="infinite"),
        pytest.param('{"metric": ["pixels", 1' + "0" * 400 + "]}", id="larger than any float"),
    ],
)
def test_unstorable_message_of_a_try_is_one_failed_try(run: Run, line: str) -> None:
    with pytest.raises(Crashed, match="The handler's process said"):
        run("say", name=line)
    assert (run.metrics, run.progress) == ([], [])


def test_unstorable_characters_arrive_replaced(run: Run) -> None:
    run("say", name='{"progress": [0.5, "half\\u0000 \\ud800"]}')
    assert run.progress == [(0.5, "half\ufffd \ufffd")]


def test_processor_time_of_a_try_is_limited(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.settings.SPARE_SECONDS", -29.2)
    with pytest.raises(Crashed, match="SIGXCPU"):
        run("spin")


def test_handler_that_stops_saves_its_checkpoint(run: Run) -> None:
    run.once_begun = run.stop.set
    with pytest.raises(Stopped):
        run("leave", 600)
    assert run.remembered() == {"left": True}


@pytest.mark.parametrize("stopped", [True, False], ids=["stop", "timeout"])
def test_handler_that_overstays_is_killed_with_its_child_processes(
    run: Run, stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten minutes before it would end by itself; its time is up when it has begun, however long that took."""
    monkeypatch.setattr(time_budget, "GRACE_SECONDS", 0.3)
    monkeypatch.setenv("CAIRN_TRY_CONFINEMENT", "off")  # else it starts nothing
    clock = Clock()
    monkeypatch.setattr(process_parent, "time", clock)
    monkeypatch.setattr(one_try, "time", clock)
    run.once_begun = run.stop.set if stopped else lambda: clock.forward(120)
    with pytest.raises(Stopped if stopped else TimedOut):
        run("stay in company", timeout_seconds=120)
    (told,) = run.progress
    assert all(is_gone(pid) for pid in json.loads(told[1]))


def test_tries_leave_nothing_behind(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(run.root))
    before = held()
    for what in ("nothing", "segfault", "nothing"):
        try:
            run(what)
        except Crashed:
            continue
    assert held() <= before
    assert list(run.root.glob(f"{PREFIX}*")) == []


def test_a_try_ends_with_its_zygote(tmp_path: Path, zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, zygote.name)
    with probes.declared():
        run = Run(tmp_path)
        run.once_begun = zygote.process.kill
        with pytest.raises(Crashed, match="SIGKILL"):
            run("stay")
    ((_, told),) = run.progress
    assert all(is_gone(pid) for pid in json.loads(told))


FLOW = """
import sys
from pathlib import Path
from tests.flows.tries.test_process_parent import Run
from tests.support import probes
from tests.support.zygotes import FRESH, Zygote
probes.declare()
run = Run(Path(sys.argv[1]))
run.once_begun = lambda: print(run.progress[0][1], flush=True)
run(sys.argv[2])
"""


@pytest.mark.parametrize("warm", [False, True], ids=["interpreter", "zygote"])
def test_a_try_ends_with_its_flow(tmp_path: Path, warm: bool, request: pytest.FixtureRequest) -> None:
    """Cold, the child alone dies with its flow: what it started itself, unconfined, is known to a zygote only."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    environment["CAIRN_TRY_CONFINEMENT"] = "off"
    code = FLOW
    if warm:
        environment[ADDRESS] = request.getfixturevalue("shared_zygote").name
    else:
        code = f"{FRESH}\n{FLOW}"
    with subprocess.Popen(
        tied(sys.executable, "-c", code, tmp_path, "stay in company" if warm else "stay"),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as flow:
        assert flow.stdout is not None
        pids = json.loads(flow.stdout.readline())
        flow.kill()
    assert all(is_gone(pid) for pid in pids)


def is_gone(pid: int) -> bool:
    """Dead, though perhaps nobody has asked yet how it died."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            if "State:\tZ" in Path(f"/proc/{pid}/status").read_text():
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False
