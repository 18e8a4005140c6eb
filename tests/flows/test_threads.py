"""Light tries: stopped in time, abandoned when they stay, cheap, and nothing left of hundreds of them."""

import contextvars
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest

from domain.contracts.runs import RunFacts
from flows import patience, threads, tries
from flows.context import Context
from flows.errors import HandlerError, Stopped, TimedOut
from flows.storage import Zones
from flows.tries import Try
from flows.workdir import PREFIX, Workdir, sweep
from tests.support import probes

FACTS = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)


def attempt(name: str, timeout_seconds: float = 30, **params: Any) -> Try:
    return Try(node_id="n", handler=name, params=params, facts=FACTS, timeout_seconds=timeout_seconds, memory="run/m1")


def run(one: Try, root: Path, stop: Event | None = None, progress: Any = lambda *_: None) -> dict[str, Any]:
    return tries.run(one, Zones.local(root), stop or Event(), progress)


def until(question: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not question():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_timeout_reaches_a_light_handler(tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(TimedOut, match=r"longer than its 0\.3 s"):
        run(attempt("sleep", 0.3, seconds=60), tmp_path)
    assert time.monotonic() - begun < 2.3
    assert tries.overstaying() == 0


def test_a_stop_reaches_a_light_handler(tmp_path: Path) -> None:
    stop, begun = Event(), time.monotonic()
    Timer(0.3, stop.set).start()
    with pytest.raises(Stopped):
        run(attempt("sleep", seconds=60), tmp_path, stop)
    assert time.monotonic() - begun < 2.3


def test_nothing_is_begun_after_the_stop(tmp_path: Path) -> None:
    stop = Event()
    stop.set()
    with pytest.raises(Stopped):
        run(attempt("echo"), tmp_path, stop)


def test_phases_resume_at_the_checkpoint(tmp_path: Path) -> None:
    stop = Event()
    phases = attempt("multi_phase", phases=4, seconds_per_phase=0.3)
    with pytest.raises(Stopped):
        run(phases, tmp_path, stop, lambda fraction, _: stop.set() if fraction >= 0.5 else None)
    assert run(phases, tmp_path) == {"phases_run": [2, 3], "resumed_at": 2}


def test_a_damaged_checkpoint_costs_its_work_not_the_run(tmp_path: Path) -> None:
    place = tmp_path / "runs/run/m1/checkpoints"
    place.mkdir(parents=True)
    (place / "n.json").write_text('{"next_pha')
    assert run(attempt("multi_phase", phases=1, seconds_per_phase=0), tmp_path)["resumed_at"] == 0


def test_a_handler_that_overstays_is_abandoned_and_fenced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "GRACE_SECONDS", 0.3)
    heard: list[str] = []
    with probes.declared():
        with pytest.raises(TimedOut):
            run(attempt("probe.light", 0.3, what="stay", seconds=1.5), tmp_path, progress=lambda *_: heard.append("p"))
        assert tries.overstaying() == 1
        until(lambda: tries.overstaying() == 0)
    assert heard == ["p"]
    assert not (tmp_path / "runs/run/m1/checkpoints/n.json").exists()


def test_handlers_keep_the_callers_context(tmp_path: Path) -> None:
    name = contextvars.ContextVar("name", default="nobody")
    name.set("the flow run")
    given = threads.run(lambda job: {"name": name.get()}, Event(), patience.Patience(time.monotonic(), 5))
    assert given == {"name": "the flow run"}


def test_hundreds_of_tries_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run(attempt("echo"), tmp_path)
    before = (len(list(Path("/proc/self/fd").iterdir())), threading.active_count())
    with probes.declared():
        for _ in range(150):
            run(attempt("echo"), tmp_path)
            with pytest.raises(HandlerError, match="after work"):
                run(attempt("probe.light", what="fail with work done"), tmp_path)
    assert (len(list(Path("/proc/self/fd").iterdir())), threading.active_count()) == before
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


def test_many_at_once_end_with_few_threads(tmp_path: Path) -> None:
    callers = [threading.Thread(target=run, args=(attempt("sleep", seconds=0.2), tmp_path)) for _ in range(100)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    until(lambda: sum(thread.name == "light-try" for thread in threading.enumerate()) <= threads.IDLE_AT_MOST)


def test_what_a_killed_process_left_is_swept_and_what_is_held_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    orphan, young = (tmp_path / f"{PREFIX}{name}" for name in ("orphan", "young"))
    orphan.mkdir()
    (orphan / "large.tif").write_bytes(b"0")
    with Workdir() as mine:
        held = mine.path()
        sweep(time.time() + 1)
        young.mkdir()
        sweep(time.time() - 60)
        assert sorted(tmp_path.glob(f"{PREFIX}*")) == sorted([held, young])


def test_a_context_may_be_given_its_folder(tmp_path: Path) -> None:
    assert Context("run", "node", Zones.local(tmp_path), tmp_path).workdir == tmp_path
