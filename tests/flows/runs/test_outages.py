"""What is ours and away is waited out under the work, and is no try of it: disks, storage, a database."""

import errno
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import BaseModel

from flows.compiler import Failed, Finished, Schedule
from flows.handlers import registry
from flows.handlers.context import Context
from flows.handlers.errors import TELLABLE, HandlerError, InvalidInput, Outage, Transient
from flows.handlers.registry import handler
from flows.memory.ledger import Ledger
from flows.runs import node_executor, outages
from flows.runs.outages import PatientStore, outage_of
from flows.runs.run_context import PlanPath, RunContext
from flows.runs.runner import Runner, Verdict
from flows.runs.stopping import Stop
from flows.storage import LocalStore
from flows.tries.time_budget import LONGEST_WAIT_SECONDS, Outlasting
from tests.flows.compiler.support import plan_of
from tests.flows.runs.test_runner import run_context_in

NAME = "test.away"
ONCE = f"""
  start: {{type: start, next: only}}
  only: {{handler: {NAME}, retry: {{max_attempts: 0}}, next: end}}
  end: {{type: end}}
"""


class Nothing(BaseModel):
    pass


@dataclass
class Away:
    """How often the work is to fail, and with what; counts how often it was begun."""

    error: Exception
    times: int
    begun: int = 0


@pytest.fixture
def away() -> Iterator[Away]:
    told = Away(OSError(errno.ENOSPC, "No space left on device"), 3)

    @handler(NAME, pool="light", example=Nothing())
    def fail(params: Nothing, context: Context) -> Nothing:
        told.begun += 1
        if told.begun <= told.times:
            raise told.error
        return Nothing()

    registry.registry.cache_clear()
    yield told
    registry._declared.pop(NAME)
    registry.registry.cache_clear()


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it would have been waited. Nobody waits here."""
    waited: list[float] = []

    @dataclass
    class Quick(Outlasting):
        def pause(self, now: float, spread: float) -> float | None:
            pause = super().pause(now, spread)
            waited.extend([pause] if pause is not None else [])
            return pause and 0.0

    for module in (node_executor, outages):
        monkeypatch.setattr(module, "Outlasting", Quick)
    return waited


async def run(run_context: RunContext, stop: Stop | None = None, plan: str = ONCE) -> Verdict:
    with closing(run_context):
        schedule = Schedule(plan_of(plan), {}, run_context.schedule_facts)
        return await Runner(run_context, schedule, stop or Stop(), PlanPath("outer."), visible=False).run_plan()


def entries(run_context: RunContext) -> list[tuple[str, int]]:
    return [(entry.state, entry.tries) for entry in Ledger(run_context.zones.runs, "run/m1", "b")._entries("_nodes")]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "full"), OSError(errno.EIO, "broken"), Outage("The database is away.")]
)
async def test_outage_does_not_use_up_a_try(tmp_path: Path, away: Away, error: Exception, waits: list[float]) -> None:
    """The node may be tried once, and is: it was begun four times because of an outage that ended."""
    away.error, run_context = error, run_context_in(tmp_path)
    assert isinstance(await run(run_context), Finished)
    assert (away.begun, entries(run_context)) == (4, [("completed", 1)])
    assert len(waits) == 3
    assert waits == sorted(waits), "each longer than the one before"


async def test_failure_of_the_work_itself_uses_up_a_try(tmp_path: Path, away: Away, waits: list[float]) -> None:
    """The control: no patience for what is not an outage."""
    away.error = Transient("The source's host is away.")
    assert isinstance(await run(run_context_in(tmp_path)), Failed)
    assert (away.begun, waits) == (1, [])


async def test_too_long_outage_fails_the_work_as_platform_outage(tmp_path: Path, away: Away) -> None:
    away.times, run_context = 100, replace(run_context_in(tmp_path), outage_seconds=0)
    verdict = await run(run_context, plan=ONCE.replace("max_attempts: 0", "max_attempts: 5"))
    assert away.begun == 1, "no further try would wait less"
    assert isinstance(verdict, Failed)
    assert verdict.error.code == "platform-outage"
    assert "ENOSPC" in verdict.error.message
    assert "was away for" in verdict.error.message
    assert not verdict.error.partner_may_read, "a partner is told in other words"


async def test_stop_ends_the_wait_for_an_outage(tmp_path: Path, away: Away) -> None:
    stop, away.times = Stop(), 10**6
    away.error = Stops(stop)
    verdict = await run(run_context_in(tmp_path), stop)
    assert isinstance(verdict, Failed)
    assert away.begun == 1


class Stops(Outage):
    """An outage during which the run is told to stop."""

    def __init__(self, stop: Stop) -> None:
        super().__init__("away")
        self.stop = stop

    def __str__(self) -> str:
        self.stop.set("draining")
        return "away"


class FullDisk(LocalStore):
    """Takes so much of what is appended and then no more, so many times."""

    left = count(2, -1)

    def append(self, name: str, content: bytes) -> None:
        if next(self.left) > 0:
            super().append(name, content[:5])
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(name, content)


async def test_result_is_stored_after_a_storage_outage_without_repeating_the_work(tmp_path: Path, away: Away) -> None:
    """The memory of the run lies on a disk that is full for a while, with half a line on it."""
    away.times, run_context = 0, run_context_in(tmp_path)
    zones = replace(run_context.zones, runs=FullDisk(tmp_path / "runs"))
    run_context.zones, run_context.ledger = zones, Ledger(zones.runs, "run/m1", "a")
    assert isinstance(await run(run_context), Finished)
    assert away.begun == 1
    remembered = Ledger(LocalStore(tmp_path / "runs"), "run/m1", "b")
    assert [entry.state for entry in remembered._entries("_nodes")] == ["completed"]


@pytest.mark.parametrize("act", ["size_bytes", "read_bytes", "write_bytes", "names"])
def test_run_storage_is_retried_while_it_is_away(tmp_path: Path, act: str) -> None:
    calls: Counter[str] = Counter()

    class Returning(LocalStore):
        def __getattribute__(self, name: str) -> Any:
            if name == act:
                calls[name] += 1
                if calls[name] < 4:
                    raise OSError(errno.ESTALE, "Stale file handle")
            return super().__getattribute__(name)

    LocalStore(tmp_path).write_bytes("a/b", b"kept")
    store = PatientStore(Returning(tmp_path))
    values = (b"kept",) if act == "write_bytes" else ()
    found = getattr(store, act)("a" if act == "names" else "a/b", *values)
    assert found == {"size_bytes": 4, "read_bytes": b"kept", "names": ["a/b"], "write_bytes": None}[act]
    assert calls[act] == 4


def test_only_faults_of_the_platform_count_as_outages() -> None:
    ours: list[Exception] = [
        OSError(getattr(errno, name), name) for name in ("ENOSPC", "EDQUOT", "EIO", "EROFS", "ESTALE")
    ]
    ours += [Outage("away"), RuntimeError("Write failed: No space left on device")]
    assert all(outage_of(error) for error in ours)
    theirs: list[BaseException] = [
        FileNotFoundError(errno.ENOENT, "gone"),
        OSError(errno.EFBIG, "large"),
        ConnectionResetError(),
    ]
    theirs += [InvalidInput("a file called No space left on device"), HandlerError("x"), MemoryError(), ValueError()]
    assert not any(outage_of(error) for error in theirs)
    assert TELLABLE["platform-outage"] is Outage, "a GDAL try can say it"


@given(spread=some.floats(0, 1), looks=some.lists(some.floats(0, 120), min_size=1, max_size=100))
def test_waits_for_an_outage_grow_to_a_longest_and_end(spread: float, looks: list[float]) -> None:
    waiting, now, longest = Outlasting(3600), 1000.0, 0.0
    for gone in looks:
        pause = waiting.pause(now, spread)
        if now - 1000 >= 3600:
            assert pause is None
            return
        assert pause is not None
        assert longest / 2 <= pause <= LONGEST_WAIT_SECONDS
        assert waiting.seconds(now) == now - 1000
        longest, now = pause, now + gone


def test_wait_for_an_outage_ends_after_its_time_budget() -> None:
    waiting = Outlasting(60)
    asked = list(iter(lambda: waiting.pause(0, 1), 15.0))
    assert asked == [0.5, 1, 2, 4, 8]
    assert waiting.pause(59, 1) == 15
    assert waiting.pause(60, 1) is None


def test_disk_outage_is_named_without_its_path() -> None:
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/srv/zones/silver/assets/a")
    assert str(outage_of(error)) == "A disk of the platform cannot be used: ENOSPC."
