"""What Prefect says of child runs: one question now and then for all that a process waits for, however many they are.

Hundreds of parents wait in one light worker. Were each to ask for itself, their questions would be most of what the
server does, and what begins meanwhile would wait behind them.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import PrefectHTTPStatusError

from flows.runs.child_flow_runs.liveness import OVER

ASK_SECONDS = 5.0
ANSWER_SECONDS = 10.0  # its client would try for minutes
PAGE = 200
TAKEN_LOOK_SECONDS = 0.4
TAKEN_SECONDS = 12.0  # more than the time between two looks of Prefect's own workers


@dataclass(frozen=True)
class Said:
    """What Prefect says of a flow run."""

    type: StateType
    name: str
    message: str = ""

    @property
    def is_final(self) -> bool:
        return self.type in OVER


QUEUED = Said(StateType.SCHEDULED, "Scheduled")
GONE = Said(StateType.CRASHED, "a flow run that is gone from Prefect")


@dataclass
class ChildStates:
    """The child runs that somebody of this process waits for. Whoever comes first once it is time asks for all."""

    asked_at: float = field(default_factory=time.monotonic)
    _watched: dict[UUID, int] = field(default_factory=dict)
    _said: dict[UUID, Said] = field(default_factory=dict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @contextmanager
    def watching(self, flow_run_id: UUID) -> Iterator[None]:
        """Have this one asked about while the block runs."""
        self._watched[flow_run_id] = self._watched.get(flow_run_id, 0) + 1
        try:
            yield
        finally:
            self._watched[flow_run_id] -= 1
            if not self._watched[flow_run_id]:
                del self._watched[flow_run_id]

    @property
    def next_at(self) -> float:
        """When it is time to ask again."""
        return self.asked_at + ASK_SECONDS

    @property
    def is_silent(self) -> bool:
        """Whether Prefect gave no answer when it was asked last: whoever asks is among those that it is asked about."""
        return not self._said

    def has_more(self, since: float) -> bool:
        """Whether there is a later word than that of then, or it is time to ask for one."""
        return self.asked_at > since or time.monotonic() >= self.next_at

    async def of(self, prefect: PrefectClient, flow_run_id: UUID) -> Said | None:
        """What Prefect said last of this one; None where it did not say, which says nothing of the child."""
        async with self._turn:
            if time.monotonic() >= self.next_at:
                self._said = await _asked(prefect, list(self._watched))
                self.asked_at = time.monotonic()  # not before: whoever waited for a silent server need not ask too
        return self._said.get(flow_run_id)


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, ChildStates] = WeakKeyDictionary()


def shared() -> ChildStates:
    """Those of this event loop, in which all parents of a worker wait."""
    return _of_loops.setdefault(asyncio.get_running_loop(), ChildStates())


async def until_taken(prefect: PrefectClient, flow_run_id: UUID) -> None:
    """Return once a worker has taken the flow run up, or after some seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(TAKEN_SECONDS):
            while (await _asked(prefect, [flow_run_id])).get(flow_run_id, QUEUED) is QUEUED:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(TAKEN_LOOK_SECONDS)


async def _asked(prefect: PrefectClient, ids: Sequence[UUID]) -> dict[UUID, Said]:
    """Nothing where Prefect does not answer for all of them."""
    said: dict[UUID, Said] = {}
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            for start in range(0, len(ids), PAGE):
                said |= await _page(prefect, ids[start : start + PAGE])
    except (httpx.HTTPError, PrefectHTTPStatusError, TimeoutError):
        return {}
    return said


async def _page(prefect: PrefectClient, ids: Sequence[UUID]) -> dict[UUID, Said]:
    """What waits in a queue is only counted: of hundreds that do, the server would have to write out every one."""
    waiting = await prefect.count_flow_runs(flow_run_filter=_among(ids, any_=[StateType.SCHEDULED]))
    said = dict.fromkeys(ids, QUEUED)
    if waiting == len(ids):
        return said
    others = await _read(prefect, _among(ids, not_any_=[StateType.SCHEDULED]))
    said |= {run.id: _said(run) for run in others}
    if waiting + len(others) < len(ids):
        known = {run.id for run in await _read(prefect, _among(ids))}
        said |= {one: GONE for one in ids if one not in known}
    return said


async def _read(prefect: PrefectClient, wanted: FlowRunFilter) -> list[FlowRun]:
    return await prefect.read_flow_runs(flow_run_filter=wanted, limit=PAGE)


def _among(ids: Sequence[UUID], **kinds: Any) -> FlowRunFilter:
    chosen = FlowRunFilterState(type=FlowRunFilterStateType(**kinds)) if kinds else None
    return FlowRunFilter(id=FlowRunFilterId(any_=list(ids)), state=chosen)


def _said(run: FlowRun) -> Said:
    if run.state is None:
        return QUEUED
    return Said(run.state.type, run.state.name or run.state.type.value, run.state.message or "")
