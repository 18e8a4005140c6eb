"""Light tries: stopped in time, abandoned when they stay, cheap, and nothing left of hundreds of them."""

import asyncio
import contextvars
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest

from domain.contracts.runs import RunFacts
from flows.handlers.context import Context
from flows.handlers.errors import HandlerError, Stopped, TimedOut
from flows.storage import Zones
from flows.tries import light_threads, one_try, time_budget
from flows.tries.one_try import Care, Try
from flows.tries.workdir import PREFIX, Workdir, sweep
from tests.support import probes
from tests.support.clock import Clock, eventually, until
from tests.support.held import held

FACTS = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)


def attempt(name: str, timeout_seconds: float = 30, **params: Any) -> Try:
    return Try(node_id="n", handler=name, params=params, facts=FACTS, timeout_seconds=timeout_seconds, memory="run/m1")


Run = Callable[..., dict[str, Any]]


def in_a_loop(one: Try, care: Care) -> dict[str, Any]:
    return asyncio.run(one_try.run_light_try(one, care))


@pytest.fixture(params=[one_try.run_try, in_a_loop])
def run(request: pytest.FixtureRequest) -> Run:
    """Either way of waiting for a light try: they differ in nothing else."""

    def run(
        one: Try,
        root: Path,
        stop: Event | None = None,
        progress: Any = lambda *_: None,
        keep: one_try.Keep = one_try.keep_nothing,
    ) -> dict[str, Any]:
        made: dict[str, Any] = request.param(one, Care(Zones.local(root), stop or Event(), progress, keep=keep))
        return made

    return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of tries."""
    made = Clock()
    monkeypatch.setattr(light_threads, "time", made)
    monkeypatch.setattr(one_try, "time", made)
    return made


@pytest.fixture
def let_go() -> Iterator[Callable[[], None]]:
    """Lets handlers go that stay until then."""
    probes.LET_GO.clear()
    with probes.declared():
        yield probes.LET_GO.set
        probes.LET_GO.set()
        until(lambda: one_try.overstaying() == 0)


def test_a_timeout_reaches_a_light_handler(run: Run, tmp_path: Path) -> None:
    """It leaves by itself: one that had to be given up would be counted."""
    with pytest.raises(TimedOut, match=r"longer than its 0\.3 s"):
        run(attempt("sleep", 0.3, seconds=600), tmp_path)
    assert one_try.overstaying() == 0


def test_a_stop_reaches_a_light_handler(run: Run, tmp_path: Path) -> None:
    stop = Event()
    Timer(0.3, stop.set).start()
    with pytest.raises(Stopped):
        run(attempt("sleep", 600, seconds=600), tmp_path, stop)
    assert one_try.overstaying() == 0


def test_no_light_try_begins_after_a_stop(run: Run, tmp_path: Path) -> None:
    stop = Event()
    stop.set()
    with pytest.raises(Stopped):
        run(attempt("echo"), tmp_path, stop)


def test_phases_resume_at_the_checkpoint(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler goes on after its second phase only once it was asked to leave."""
    stop, asked, judge = Event(), Event(), light_threads.ThreadCall.ask_or_abandon
    phases = attempt("multi_phase", phases=4, seconds_per_phase=0)

    def judged(job: light_threads.ThreadCall, *, stopping: bool) -> None:
        judge(job, stopping=stopping)
        if job.stop.is_set():
            asked.set()

    def told(fraction: float, _: str) -> None:
        if fraction >= 0.5 and not asked.is_set():
            stop.set()
            asked.wait(60)

    monkeypatch.setattr(light_threads.ThreadCall, "ask_or_abandon", judged)
    with pytest.raises(Stopped):
        run(phases, tmp_path, stop, told)
    assert run(phases, tmp_path) == {"phases_run": [2, 3], "resumed_at": 2}


def test_damaged_checkpoint_restarts_the_try_and_does_not_fail_it(run: Run, tmp_path: Path) -> None:
    place = tmp_path / "runs/run/m1/checkpoints"
    place.mkdir(parents=True)
    (place / "n.json").write_text('{"next_pha')
    assert run(attempt("multi_phase", phases=1, seconds_per_phase=0), tmp_path)["resumed_at"] == 0


def test_overstaying_light_handler_is_abandoned_and_fenced(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, let_go: Callable[[], None]
) -> None:
    monkeypatch.setattr(time_budget, "GRACE_SECONDS", 0.3)
    heard: list[str] = []

    def begun(*_: object) -> None:
        heard.append("p")
        clock.forward(60)

    with pytest.raises(TimedOut):
        run(attempt("probe.light", 60, what="stay until let go"), tmp_path, progress=begun)
    assert one_try.overstaying() == 1
    let_go()
    until(lambda: one_try.overstaying() == 0)
    assert heard == ["p"]
    assert not (tmp_path / "runs/run/m1/checkpoints/n.json").exists()


def test_late_result_of_a_light_try_is_not_kept(run: Run, tmp_path: Path, clock: Clock) -> None:
    kept: list[Any] = []
    with probes.declared():
        assert run(attempt("echo", a=1), tmp_path, keep=kept.append) == {"echoed_params": {"a": 1}}
        late = attempt("probe.light", 60, what="finish when asked")
        with pytest.raises(TimedOut):
            run(late, tmp_path, progress=lambda *_: clock.forward(60), keep=kept.append)
    assert kept == [{"echoed_params": {"a": 1}}]
    assert one_try.overstaying() == 0


def test_keeping_a_result_may_outlast_the_try(run: Run, tmp_path: Path, clock: Clock) -> None:
    """What was done in time is not done again because writing it down was slow."""

    def keep_slowly(_: dict[str, Any]) -> None:
        clock.forward(60)
        time.sleep(2 * time_budget.LOOK_SECONDS)  # so that whoever waits looks at the clock

    assert run(attempt("echo", 60, a=1), tmp_path, keep=keep_slowly) == {"echoed_params": {"a": 1}}


def test_cancelled_caller_abandons_its_try(tmp_path: Path, let_go: Callable[[], None]) -> None:
    kept: list[Any] = []
    begun: list[float] = []

    async def go() -> None:
        care = Care(Zones.local(tmp_path), Event(), lambda fraction, _: begun.append(fraction), keep=kept.append)
        one = asyncio.create_task(one_try.run_light_try(attempt("probe.light", 600, what="stay until let go"), care))
        await eventually(lambda: begun)
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one

    asyncio.run(go())
    assert one_try.overstaying() == 1
    let_go()
    until(lambda: one_try.overstaying() == 0)
    assert kept == []


def test_handlers_keep_the_callers_context() -> None:
    name = contextvars.ContextVar("name", default="nobody")
    name.set("the flow run")
    given = light_threads.run_in_thread(
        lambda job: {"name": name.get()}, Event(), time_budget.TimeBudget(time.monotonic(), 5)
    )
    assert given == {"name": "the flow run"}


def test_hundreds_of_tries_leave_nothing_behind(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run(attempt("echo"), tmp_path)
    before = held()
    with probes.declared():
        for _ in range(150):
            run(attempt("echo"), tmp_path)
            with pytest.raises(HandlerError, match="after work"):
                run(attempt("probe.light", what="fail with work done"), tmp_path)
    assert held() <= before
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


def test_hundred_concurrent_tries_leave_few_threads(run: Run, tmp_path: Path) -> None:
    callers = [threading.Thread(target=run, args=(attempt("sleep", seconds=0.2), tmp_path)) for _ in range(100)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    until(lambda: sum(thread.name == "light-try" for thread in threading.enumerate()) <= light_threads.IDLE_AT_MOST)


def test_work_folder_of_a_killed_process_is_swept_and_a_held_one_is_not(
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


def test_context_uses_the_given_work_folder(tmp_path: Path) -> None:
    assert Context("run", "node", Zones.local(tmp_path), tmp_path).workdir == tmp_path
