"""Child runs: whether they live, and what they hand over."""

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from prefect.client.schemas.objects import State as PrefectState
from prefect.client.schemas.objects import StateType

from domain.contracts.runs import RunFacts
from flows.compiler import NodeOutcome, RunError, State
from flows.handlers.errors import Stopped, Transient
from flows.memory.large_values import KeptValues, plain
from flows.memory.ledger import Ledger
from flows.runs.child_flow_runs import liveness, prefect_states
from flows.runs.child_flow_runs.errors import ChildLost
from flows.runs.child_flow_runs.liveness import ChildRun, Life, showing_life, tell_hand_over
from flows.runs.child_flow_runs.prefect_states import ChildStates
from flows.runs.child_flow_runs.protocol import outcome_from_json, outcome_json, segment_name, sign_of_life
from flows.runs.child_flow_runs.start import SegmentRuns
from flows.runs.domain_client import AttemptClient
from flows.runs.run_context import RunContext
from flows.runs.stopping import Stop
from flows.storage import LocalStore, Zones
from tests.support.clock import PATIENCE_SECONDS, eventually
from tests.support.many_flow_runs import ManyFlowRuns

FACTS = RunFacts(id="run", request_id="request", received_at=datetime(2026, 1, 1, tzinfo=UTC), attempt=2)


async def test_child_stops_when_its_parent_leaves_a_stop_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, place, stop = LocalStore(tmp_path), segment_name(FACTS, 1), Stop()
    monkeypatch.setattr(liveness, "BEAT_SECONDS", 0.01)
    async with showing_life(store, place, lambda: (0, 0), stop):
        await eventually(lambda: beats_of(store, place) > 1)
        assert not stop.is_set()
        store.write_bytes(f"{place}/stop", b"")
        await eventually(stop.is_set)
    assert stop.reason == "over"


def beats_of(store: LocalStore, place: str) -> int:
    """How often the child has shown that it lives."""
    if not store.size_bytes(sign_of_life(place)):
        return 0
    return int(json.loads(store.read_bytes(sign_of_life(place)))["beat"])


async def test_a_sign_of_life_changes_for_as_long_as_the_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, place = LocalStore(tmp_path), segment_name(FACTS, 1)
    signs = set()
    monkeypatch.setattr(liveness, "BEAT_SECONDS", 0.01)
    async with showing_life(store, place, lambda: (2, 1), Stop()):
        for beat in range(1, 5):
            await eventually(lambda beat=beat: beats_of(store, place) >= beat)  # type: ignore[misc]
            signs.add(store.read_bytes(sign_of_life(place)))
    assert len(signs) > 1
    assert all({"done": 2, "failed": 1}.items() <= json.loads(sign).items() for sign in signs)
    last = store.read_bytes(sign_of_life(place))
    await asyncio.sleep(0.05)
    assert store.read_bytes(sign_of_life(place)) == last


@dataclass(frozen=True)
class Account(LocalStore):
    """A zone that answers nothing while it is away."""

    def size_bytes(self, name: str) -> int | None:
        self._answer()
        return super().size_bytes(name)

    def write_bytes(self, name: str, content: bytes) -> None:
        self._answer()
        super().write_bytes(name, content)

    def go_away(self) -> None:
        (self.root / ".away").touch()

    def come_back(self) -> None:
        (self.root / ".away").unlink()

    def refused(self) -> int:
        """How often it did not answer."""
        log = self.root / ".refused"
        return log.stat().st_size if log.exists() else 0

    def _answer(self) -> None:
        if (self.root / ".away").exists():
            with (self.root / ".refused").open("ab") as log:
                log.write(b".")
            raise Transient("The storage account did not answer.")


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.setattr(liveness, "BEAT_SECONDS", 0.01)
    for name in ("FIRST_LOOK_SECONDS", "LONGEST_LOOK_SECONDS", "QUEUED_LOOK_SECONDS"):
        monkeypatch.setattr(liveness, name, 0.01)
    return Account(tmp_path)


async def test_a_child_outlives_an_outage_of_storage_and_hears_its_parent_afterwards(account: Account) -> None:
    place, stop = segment_name(FACTS, 1), Stop()
    account.go_away()
    async with showing_life(account, place, lambda: (0, 0), stop):
        await eventually(lambda: account.refused() > 1)
        account.come_back()
        await eventually(lambda: beats_of(account, place))
        account.write_bytes(f"{place}/stop", b"")
        await eventually(stop.is_set)
        before = account.refused()
        account.go_away()
        await eventually(lambda: account.refused() > before + 1)


def runs(account: Account, silence_seconds: float) -> SegmentRuns:
    """Of a parent whose children wait, as far as Prefect knows."""
    zones = Zones(account, account, account, account)
    line = AttemptClient(cast("Any", None), UUID(int=1), "token")
    run_context = RunContext(FACTS, "light", zones, line, Ledger(account, "run/m1", "a"))
    return SegmentRuns(cast("Any", Marking(StateType.SCHEDULED)), run_context, silence_seconds, states=ChildStates())


@dataclass
class Marking(ManyFlowRuns):
    """A stand-in for Prefect that calls every flow run the same, or knows none of them."""

    mark: StateType | None
    withdrawn: list[UUID] = field(default_factory=list)

    async def set_flow_run_state(self, flow_run_id: UUID, state: PrefectState[Any]) -> None:
        assert state.is_cancelled()
        self.withdrawn.append(flow_run_id)

    def state_of(self, flow_run_id: UUID) -> PrefectState[Any] | None:
        return PrefectState(type=self.mark, name=self.mark.name.title()) if self.mark else None


@pytest.mark.parametrize("mark", [StateType.CRASHED, StateType.FAILED, StateType.COMPLETED, None])
async def test_child_with_fresh_signs_is_not_lost_whatever_prefect_calls_it(
    account: Account, monkeypatch: pytest.MonkeyPatch, mark: StateType | None
) -> None:
    """An automation marks flow runs whose heartbeats Prefect did not hear. The child hands in what it has done."""
    monkeypatch.setattr(prefect_states, "ASK_SECONDS", 0.0)
    prefect, place = Marking(mark), segment_name(FACTS, 1)
    segments = runs(account, 600)
    segments.prefect = cast("Any", prefect)
    async with showing_life(account, place, lambda: (0, 0), Stop()):
        waiting = asyncio.create_task(
            segments._until_over(ChildRun(place, UUID(int=1), Life(600)), Stop(), heard_by_nobody)
        )
        await eventually(lambda: prefect.asked > 5 or waiting.done())
        assert not waiting.done(), waiting.exception()
        account.write_bytes(f"{place}/outcome.json", b"{}")
        assert await asyncio.wait_for(waiting, PATIENCE_SECONDS)


async def heard_by_nobody(_: ChildRun) -> None:
    """Nothing follows from a look."""


async def test_child_that_died_before_it_began_is_withdrawn(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker died with it: else Prefect would keep the slot of the pool that it was given."""
    monkeypatch.setattr(prefect_states, "ASK_SECONDS", 0.0)
    prefect, segments = Marking(StateType.PENDING), runs(account, 0.02)
    segments.prefect = cast("Any", prefect)
    child = ChildRun(segment_name(FACTS, 1), UUID(int=1), Life(0.02))
    with pytest.raises(ChildLost):
        await asyncio.wait_for(segments._until_over(child, Stop(), heard_by_nobody), PATIENCE_SECONDS)
    assert prefect.withdrawn == [UUID(int=1)]


async def test_parent_learns_of_a_hand_over_from_storage_alone(account: Account) -> None:
    """Else it would take the child for dead, which costs an attempt."""
    place = segment_name(FACTS, 1)
    account.write_bytes(sign_of_life(place), b'{"beat": 3}')
    waiting = asyncio.create_task(
        runs(account, 600)._until_over(ChildRun(place, UUID(int=1), Life(600)), Stop(), heard_by_nobody)
    )
    await tell_hand_over(account, place)
    assert await asyncio.wait_for(waiting, PATIENCE_SECONDS) is False


async def test_child_leaves_even_if_storage_does_not_take_its_hand_over(account: Account) -> None:
    account.go_away()
    await tell_hand_over(account, segment_name(FACTS, 1))
    assert account.refused() == 1


async def test_a_parent_waits_out_an_outage_of_storage(account: Account) -> None:
    place = segment_name(FACTS, 1)
    waiting = asyncio.create_task(
        runs(account, 600)._until_over(ChildRun(place, UUID(int=1), Life(600)), Stop(), heard_by_nobody)
    )
    account.go_away()
    await eventually(lambda: account.refused() > 1)
    assert not waiting.done()
    account.come_back()
    account.write_bytes(f"{place}/outcome.json", b"{}")
    assert await asyncio.wait_for(waiting, PATIENCE_SECONDS)


async def test_wait_of_a_parent_for_storage_is_bounded(account: Account) -> None:
    """Of a child that has not begun nothing else would end the wait."""
    account.go_away()
    child = ChildRun(segment_name(FACTS, 1), UUID(int=1), Life(0.2))
    with pytest.raises(Transient):
        await asyncio.wait_for(runs(account, 0.2)._until_over(child, Stop(), heard_by_nobody), PATIENCE_SECONDS)


async def test_stop_file_is_left_once_storage_is_back(account: Account) -> None:
    place, stop = segment_name(FACTS, 1), Stop()
    account.write_bytes(sign_of_life(place), b"{}")
    child = ChildRun(place, UUID(int=1), Life(600))
    looked: list[object] = []

    async def heard(child: ChildRun) -> None:
        looked.append(child)

    waiting = asyncio.create_task(runs(account, 600)._until_over(child, stop, heard))
    await eventually(lambda: looked)
    account.go_away()
    stop.set("draining")
    before = account.refused()
    await eventually(lambda: account.refused() > before + 2)  # looks, and tries to leave word
    assert not waiting.done()
    account.come_back()
    with pytest.raises(Stopped):
        await asyncio.wait_for(waiting, PATIENCE_SECONDS)
    assert account.size_bytes(f"{place}/stop") == 0


@pytest.mark.parametrize(
    "outcome",
    [
        NodeOutcome(State.COMPLETED, {"a": [1, None, "x"]}),
        NodeOutcome(State.COMPLETED, {"large": ["x" * 100] * 1000}),
        NodeOutcome(State.SKIPPED),
        NodeOutcome(State.FAILED, None, RunError("invalid-input", "no", "n", partner_may_read=True)),
    ],
)
def test_outcome_survives_json(outcome: NodeOutcome, tmp_path: Path) -> None:
    values = KeptValues(LocalStore(tmp_path), "run/m1")
    told = json.loads(json.dumps(outcome_json(outcome, values)))
    back = outcome_from_json(told, values)
    assert NodeOutcome(back.state, plain(back.output), back.error) == outcome
