"""Fan-outs that several child runs share: by need, and whatever becomes of one of them. No Prefect."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import httpx
import pytest
from prefect.client.orchestration import PrefectClient

from domain.contracts.runs import RunFacts
from flows.compiler import Finished, Plan, Schedule, chunks
from flows.compiler.chunks import chunk_sizes
from flows.memory.ledger import Ledger, LedgerEntry, read
from flows.runs import sharing, taking
from flows.runs.child_flow_runs import liveness, prefect_states, takers
from flows.runs.child_flow_runs.errors import ChildLost
from flows.runs.child_flow_runs.prefect_states import ChildStates
from flows.runs.child_flow_runs.protocol import sign_of_life
from flows.runs.child_flow_runs.start import SegmentRuns
from flows.runs.child_flow_runs.workers import ServingWorkers
from flows.runs.domain_client import AttemptClient
from flows.runs.fan_out import Share, Tell, run_items
from flows.runs.node_executor import NodeExecutor
from flows.runs.run_context import RunContext
from flows.runs.runner import Runner, Verdict
from flows.runs.stopping import Stop
from flows.storage import Zones
from tests.flows.compiler.support import plan_of
from tests.support.child_standins import ChildrenHere
from tests.support.clock import PATIENCE_SECONDS, eventually

FACTS = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=1)
PLAN = """
  start: {{type: start, next: each}}
  each:
    type: fan_out
    source: "{{{{ [0] * {count} }}}}"
    {more}
    task: {{handler: scripted, queue: gdal, params: {{seconds: {seconds}}}}}
    next: all
  all: {{type: fan_in, next: end}}
  end: {{type: end}}"""


def plan(count: int, seconds: float = 0.0, more: str = "max_concurrency: 8") -> Plan:
    return plan_of(PLAN.format(count=count, seconds=seconds, more=more))


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items without task runs; signs and looks soon after each other."""

    async def unseen(executor: NodeExecutor, share: Share, tell: Tell, *, visible: bool, **more: Any) -> None:
        await run_items(executor, share, tell, visible=not visible, **more)

    async def tell_nobody(_line: AttemptClient, _pool: str) -> None:
        """No domain is there, and workers look by themselves."""

    monkeypatch.setattr(AttemptClient, "tell_worker", tell_nobody)
    monkeypatch.setattr(taking, "run_items", unseen)
    monkeypatch.setattr(sharing, "run_items", unseen)
    monkeypatch.setattr(sharing, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(prefect_states, "ASK_SECONDS", 0.05)
    monkeypatch.setattr(prefect_states, "TAKEN_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(liveness, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(liveness, "BELIEVED_SECONDS", 0.3)
    for name in ("FIRST_LOOK_SECONDS", "LONGEST_LOOK_SECONDS", "QUEUED_LOOK_SECONDS"):
        monkeypatch.setattr(liveness, name, 0.05)
    monkeypatch.setattr(takers, "LONGEST_PAUSE_SECONDS", 0.1)


@asynccontextmanager
async def running(
    folder: Path, compiled: Plan, silence_seconds: float = 60, pool: str = "light", **prefect: Any
) -> AsyncIterator[tuple[ChildrenHere, "asyncio.Task[Verdict]"]]:
    """A run with stand-ins for its children."""
    zones = Zones.local(folder)
    line = AttemptClient(cast("httpx.AsyncClient", None), UUID(int=1), "token")
    run_context = RunContext(FACTS, pool, zones, line, Ledger(zones.runs, "run/m1", "parent"))
    here = ChildrenHere(zones, FACTS, compiled, silence_seconds=silence_seconds, **prefect)
    run_context.children = SegmentRuns(
        cast("PrefectClient", here), run_context, silence_seconds, states=ChildStates(), workers=ServingWorkers()
    )
    made = Runner(run_context, Schedule(compiled), Stop(), visible=pool == "gdal")
    runner = asyncio.create_task(made.run_plan())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield here, runner
    finally:
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
        await here.close()


def entries(here: ChildrenHere) -> list[LedgerEntry]:
    return [entry for entry in read(here.zones.runs, "run/m1", "each") if entry.is_completed]


def successes(here: ChildrenHere) -> Counter[int]:
    """How often each item succeeded."""
    return Counter(entry.index for entry in entries(here) if entry.index is not None)


def done_by(here: ChildrenHere, number: int) -> int:
    """How many items this child did."""
    name = f"run/m1/ledger/each/child-{number}.jsonl"
    runs = here.zones.runs
    return runs.read_bytes(name).count(b"\n") if runs.size_bytes(name) is not None else 0


async def test_items_are_done_once_each_by_child_runs_that_take_them_by_need(tmp_path: Path) -> None:
    """The second comes late; half of the items dealt to it would still be there when the first is done."""
    late: Callable[[int], tuple[str, float]] = lambda number: (f"w{number}", 0.6 * (number - 1))  # noqa: E731
    async with running(tmp_path, plan(200, 0.02), worker_of=late) as (here, runner):
        assert isinstance(await runner, Finished)
        assert successes(here) == dict.fromkeys(range(200), 1)
        first, second = done_by(here, 1), done_by(here, 2)
    assert first > second > 10


async def test_items_of_a_killed_child_run_are_taken_over_and_ended_ones_stay(tmp_path: Path) -> None:
    async with running(tmp_path, plan(120, 0.03)) as (here, runner):
        await eventually(lambda: done_by(here, 1) > 5 and done_by(here, 2) > 5)
        await here.kill(1)
        assert isinstance(await runner, Finished)
        assert successes(here) == dict.fromkeys(range(120), 1)
        assert done_by(here, 3) or done_by(here, 2) > 60


async def test_child_run_that_was_cut_off_and_given_up_notes_no_result_any_more(tmp_path: Path) -> None:
    """Its handlers go on meanwhile; the other child does what it had in hand, and its own results come too late."""
    async with running(tmp_path, plan(60, 0.05), silence_seconds=0.6) as (here, runner):
        await eventually(lambda: done_by(here, 1) > 3 and done_by(here, 2) > 3)
        cut = here.children[1]
        cut.store.away.set()
        await eventually(lambda: len(here.children) == 3)  # it was given up, and its items offered again
        cut.store.away.clear()
        assert isinstance(await runner, Finished)
        await eventually(lambda: cut.task is not None and cut.task.done())
        assert successes(here) == dict.fromkeys(range(60), 1)


async def test_result_of_a_child_run_that_was_given_up_would_count_twice_without_a_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A control for the one before: a child that never looks whether its work is still its own."""

    def renew(lease: liveness.Lease) -> bool:
        lease._beat += 1
        sign = json.dumps({"beat": lease._beat, "done": 0, "failed": 0})
        lease.store.write_bytes(sign_of_life(lease.place), sign.encode())
        return True

    monkeypatch.setattr(liveness.Lease, "renew", renew)
    monkeypatch.setattr(liveness.Lease, "is_sure", True)
    async with running(tmp_path, plan(60, 0.05), silence_seconds=0.6) as (here, runner):
        await eventually(lambda: done_by(here, 1) > 3)
        here.children[1].store.away.set()
        await eventually(lambda: len(here.children) == 3)
        await eventually(lambda: sum(successes(here).values()) > 50)
        here.children[1].store.away.clear()
        await runner
        await eventually(lambda: max(successes(here).values()) == 2)


async def test_child_run_that_is_handed_over_leaves_its_items_to_others(tmp_path: Path) -> None:
    async with running(tmp_path, plan(80, 0.05)) as (here, runner):
        await eventually(lambda: done_by(here, 1) > 3)
        here.children[1].run_context.line.stop.set("draining")
        assert isinstance(await runner, Finished)
        assert successes(here) == dict.fromkeys(range(80), 1)


async def test_child_run_of_a_worker_that_has_one_steps_aside_until_another_worker_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that looks often takes all that is sent; what a second child there did, the first would have done."""
    monkeypatch.setattr(chunks, "PAYS_SECONDS", 0.1)
    greedy: Callable[[int], tuple[str, float]] = lambda number: ("greedy" if number < 4 else "other", 0.0)  # noqa: E731
    async with running(tmp_path, plan(300, 0.05), worker_of=greedy) as (here, runner):
        await eventually(lambda: len(here.children) >= 4 and done_by(here, 4) > 3)
        aside = [child.number for child in here.children.values() if child.said.get("stepped_aside")]
        assert isinstance(await runner, Finished)
        assert len(aside) >= 2
        assert successes(here) == dict.fromkeys(range(300), 1)
        assert done_by(here, 4) > 30
        assert here.tags[0] == here.tags[1] == [f"shared:{UUID(int=1)}"]


async def test_child_run_that_meets_its_like_does_not_come_back_for_the_last_items(tmp_path: Path) -> None:
    async with running(tmp_path, plan(40, 0.02), worker_of=lambda _number: ("only", 0.0)) as (here, runner):
        assert isinstance(await runner, Finished)
        assert successes(here) == dict.fromkeys(range(40), 1)
        assert len(here.children) <= 4


@pytest.mark.parametrize("bound", [3, 8])
async def test_items_at_once_are_never_more_than_the_fan_out_allows(tmp_path: Path, bound: int) -> None:
    declared = f"max_concurrency: {bound}\n    shards: 3"
    async with running(tmp_path, plan(60, 0.1, declared)) as (here, runner):
        assert isinstance(await runner, Finished)
        marks = [(entry.started_at, entry.ended_at) for entry in entries(here)]
    assert 0.9 * bound <= peak_of(marks) <= bound


async def test_calls_of_storage_for_sharing_are_bounded_by_the_number_of_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "BEAT_SECONDS", 60.0)
    async with running(tmp_path, plan(400, 0.0)) as (here, runner):
        assert isinstance(await runner, Finished)
        calls = Counter(call for child in here.children.values() for call in child.store.calls)
    cut = len(chunk_sizes(400, 2))
    assert cut <= calls["write_new"] <= 3 * cut + 10
    assert calls["read_range"] == cut
    assert calls["names"] <= 3 * cut + 10


async def test_run_is_lost_where_children_die_again_and_again_and_nothing_ends_well(tmp_path: Path) -> None:
    async with running(tmp_path, plan(40, 600), serving=2) as (here, runner):
        for number in range(1, 20):
            await eventually(
                lambda number=number: (  # type: ignore[misc]
                    runner.done()
                    or (number in here.children and here.children[number].store.calls.count("append") > 0)
                    or (number in here.children and "read_range" in here.children[number].store.calls)
                )
            )
            if runner.done():
                break
            await here.kill(number)
        with pytest.raises(ChildLost):
            await runner
        assert len(here.children) < 10


async def test_next_child_run_is_sent_once_the_one_before_was_taken(tmp_path: Path) -> None:
    """Workers that look every few seconds take all that waits: sent together, all would go to whoever looks first."""
    later: Callable[[int], tuple[str, float]] = lambda number: (f"w{number}", 0.5)  # noqa: E731
    async with running(tmp_path, plan(60, 0.05), worker_of=later, serving=3) as (here, runner):
        await eventually(lambda: len(here.children) == 1)
        first = here.children[1]
        await eventually(lambda: len(here.children) == 2 or first.state.value == "RUNNING")
        assert len(here.children) == 1
        await eventually(lambda: len(here.children) == 2)
        assert isinstance(await runner, Finished)


async def test_queued_child_run_is_withdrawn_once_the_others_have_done_everything(tmp_path: Path) -> None:
    never: Callable[[int], tuple[str, float]] = lambda number: (f"w{number}", 600.0 * (number - 1))  # noqa: E731
    async with running(tmp_path, plan(40, 0.01), worker_of=never) as (here, runner):
        assert isinstance(await runner, Finished)
        assert done_by(here, 1) == 40
        assert here.children[2].state.value == "CANCELLED"


# --- on the run's own pool ---


async def test_fan_out_on_the_runs_own_pool_is_helped_once_the_rest_would_take_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "PAYS_SECONDS", 0.5)
    async with running(tmp_path, plan(200, 0.05), pool="gdal", serving=3) as (here, runner):
        assert isinstance(await runner, Finished)
        assert successes(here) == dict.fromkeys(range(200), 1)
        assert len(here.children) == 2
        helped = done_by(here, 1) + done_by(here, 2)
        marks = [(entry.started_at, entry.ended_at) for entry in entries(here)]
    assert 20 < helped < 180
    assert peak_of(marks) <= 8


async def test_fan_out_that_ends_soon_asks_nobody_for_help(tmp_path: Path) -> None:
    async with running(tmp_path, plan(60, 0.05), pool="gdal", serving=3) as (here, runner):
        assert isinstance(await runner, Finished)
        assert not here.children
        assert here.asked_for_workers == 0


async def test_fan_out_is_done_at_home_where_no_help_comes_or_it_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "PAYS_SECONDS", 0.3)
    dies: Callable[[int], tuple[str, float]] = lambda number: ("w", 0.0 if number == 1 else 600.0)  # noqa: E731
    async with running(tmp_path, plan(120, 0.05), pool="gdal", serving=2, worker_of=dies) as (here, runner):
        await eventually(lambda: done_by(here, 1) > 3)
        await here.kill(1)
        assert isinstance(await runner, Finished)
        assert successes(here) == dict.fromkeys(range(120), 1)


def peak_of(marks: Sequence[tuple[float, float]]) -> int:
    """How many were under way at once; an end comes before a beginning of the same moment."""
    moves = sorted([(began, 1) for began, _ in marks] + [(ended, -1) for _, ended in marks])
    return max(accumulate(move for _, move in moves))
