"""The sweep: compares what we know of attempts with what Prefect says, and acts by the rules' table.

It relies on no hook, event or automation, and on Prefect only for being quicker. Any number of sweeps may run.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from domain.db import Database, failures_logged
from domain.errors import DomainError
from domain.repositories import outbox
from domain.repositories.sweep import Suspect, Sweep
from domain.rules.backoff import FIRST_SECONDS
from domain.rules.reconcile import OVER, Action, FlowState, Patience, decide
from domain.services.runs.endings import RunLifecycle

log = logging.getLogger("cairn.reconcile")
HURRY_SECONDS = 0.5
MOST_PAGES = 20  # of what is over, in one sweep: what lives is looked at again in between
LINGER_SECONDS = 5.0  # how long to look on after flow runs were to be stopped


class FlowRuns(Protocol):
    """What the sweep asks of Prefect. Where Prefect does not answer, the state is `unknown`."""

    async def states(self, flow_run_ids: Iterable[UUID]) -> dict[UUID, FlowState]: ...

    async def find(self, key: str) -> tuple[UUID | None, FlowState]: ...

    async def stop(self, flow_run_id: UUID, flow: FlowState) -> None: ...

    async def end_inside(self, flow_run_ids: Iterable[UUID]) -> bool: ...

    async def children_under_way(self) -> dict[UUID, str]: ...

    async def end_child(self, flow_run_id: UUID) -> None: ...


async def _sleep_unnotified(seconds: float) -> bool:
    """Sleep, for sweeps that no notification of fenced attempts wakes."""
    await asyncio.sleep(seconds)
    return False


@dataclass
class PrefectAnswers:
    """Notes since when Prefect has answered all questions of this process."""

    missed_at: float = float("-inf")

    def hear(self, states: Iterable[FlowState]) -> None:
        if FlowState.UNKNOWN in states:
            self.missed_at = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.missed_at


@dataclass(frozen=True)
class Reconciler:
    """Compares attempts with Prefect's flow runs again and again."""

    database: Database
    flow_runs: FlowRuns
    every_seconds: float
    patience: Patience
    max_attempts: int
    fenced: Callable[[float], Awaitable[bool]] = _sleep_unnotified
    pause_seconds: float = FIRST_SECONDS
    answers: PrefectAnswers = field(default_factory=PrefectAnswers)
    page: int = 500
    _behind: dict[bool, Suspect] = field(default_factory=dict, init=False)  # where the next sweep goes on

    async def run(self) -> None:
        """Sweep until cancelled; after a fence, judge its flow runs at once and until they have ended."""
        swept, hurry_until = time.monotonic(), 0.0
        while True:
            now, due = time.monotonic(), swept + self.every_seconds
            if await self.fenced(HURRY_SECONDS if now < hurry_until else max(0.0, due - now)):
                hurry_until = time.monotonic() + self.patience.stop_fenced + LINGER_SECONDS
                await asyncio.sleep(HURRY_SECONDS)  # let those that are fenced together be seen to together
            try:
                with failures_logged(log, "sweep failed and is tried again"):
                    if time.monotonic() >= due:
                        swept = time.monotonic()
                        await self.sweep()
                    else:
                        await self.sweep_fenced()
            except (SQLAlchemyError, OSError) as error:
                log.warning("sweep failed and is tried again", extra={"error": type(error).__name__})

    async def sweep_fenced(self) -> dict[Action, int]:
        """Judge the flow runs of fenced attempts, however new the fence is."""
        return await self._judge_all_ended(0, fenced_only=True)

    async def sweep(self) -> dict[Action, int]:
        """Judge every quiet attempt, each in a transaction of its own; returns how often what was done."""
        async with self.database.transaction() as session:
            quiet = await Sweep(session, self.patience).quiet(self.patience.heartbeat)
            unlinked = await Sweep(session, self.patience).unlinked()
        told = await self.flow_runs.states({one.flow_run_id for one in quiet if one.flow_run_id})
        self.answers.hear(told.values())
        done = Counter([await self._judge_or_log(one, self._judge_live(one, told)) for one in quiet])
        done.update(await self._judge_all_ended(min(self.patience.heartbeat, self.patience.stop_fenced)))
        done.update([await self._judge_or_log(one, self._judge_unlinked(one)) for one in unlinked])
        done.update(await self._end_unheard_children())
        return dict(done)

    async def _end_unheard_children(self) -> dict[Action, int]:
        """End child runs of ended attempts that never said that they began: their processes died before.

        Only Prefect knows of those, and keeps a slot of their pool for each, for ever.
        """
        under_way = await self.flow_runs.children_under_way()
        if not under_way:
            return {}
        async with self.database.transaction() as session:
            unheard = await Sweep(session).unheard(under_way, self.patience.stop_fenced)
        for flow_run_id in unheard:
            await self.flow_runs.end_child(flow_run_id)
        return {Action.STOP_FLOW: len(unheard)} if unheard else {}

    @property
    def _patience_now(self) -> Patience:
        return replace(self.patience, prefect_answers=self.answers.seconds)

    async def _judge_or_log(self, suspect: Suspect, judging: Awaitable[Action]) -> Action:
        """Judge one attempt; log a failure, so that it holds up no other."""
        with failures_logged(log, "attempt could not be judged", run_id=str(suspect.run_id)):
            return await judging
        return Action.LEAVE

    async def _judge_live(self, suspect: Suspect, told: dict[UUID, FlowState]) -> Action:
        """Decide about a suspect, and again under the locks, since it may have spoken or ended meanwhile."""
        flow_run_id, flow = suspect.flow_run_id, FlowState.UNKNOWN
        if flow_run_id is None:
            flow_run_id, flow = await self.flow_runs.find(
                outbox.key(suspect.workflow_id, suspect.run_id, suspect.number)
            )
        else:
            flow = told.get(flow_run_id, FlowState.UNKNOWN)
        action = decide(suspect.facts, flow, self._patience_now)
        if action is Action.WARN:
            facts = {"run_id": str(suspect.run_id), "flow": flow.value, "quiet_seconds": suspect.facts.quiet_seconds}
            log.warning("attempt waits longer than it should", extra=facts)
        if action is Action.LINK and flow_run_id is not None:
            await outbox.link(self.database, suspect.run_id, suspect.number, flow_run_id)
        if action in {Action.LOSE, Action.FAIL_ENDED, Action.CANCEL}:
            return await self._act(suspect, flow)
        return action

    async def _judge_unlinked(self, suspect: Suspect) -> Action:
        """Link what a sender created before it died. From then on it is stopped as any flow run of a fenced attempt."""
        key = outbox.key(suspect.workflow_id, suspect.run_id, suspect.number)
        flow_run_id, flow = await self.flow_runs.find(key)
        if flow_run_id is not None:
            await outbox.link(self.database, suspect.run_id, suspect.number, flow_run_id)
            return Action.LINK
        if flow is not FlowState.MISSING:
            return Action.LEAVE
        async with self.database.transaction() as session:
            await Sweep(session).dispose([suspect])
        return Action.DISPOSE

    async def _act(self, suspect: Suspect, flow: FlowState) -> Action:
        try:
            async with self.database.transaction() as session:
                lifecycle = RunLifecycle(session, self.max_attempts, self.pause_seconds)
                return await lifecycle.reconcile(suspect, flow, self._patience_now)
        except DomainError as error:
            log.info("attempt settled itself", extra={"run_id": str(suspect.run_id), "reason": error.detail})
            return Action.LEAVE

    async def _judge_all_ended(self, quiet_seconds: float, *, fenced_only: bool = False) -> dict[Action, int]:
        """See that the flow runs of attempts that are over end too: page by page, so that those that do not end keep
        no other from its turn. Where there are too many for one sweep, the next goes on behind them.
        """
        done = Counter[Action]()
        for _ in range(MOST_PAGES):
            async with self.database.transaction() as session:
                ended = await Sweep(session, self.patience).ended(
                    quiet_seconds, fenced_only=fenced_only, after=self._behind.get(fenced_only), limit=self.page
                )
            done.update(await self._judge_ended(ended))
            if len(ended) < self.page:
                self._behind.pop(fenced_only, None)
                break
            self._behind[fenced_only] = ended[-1]
        return dict(done)

    async def _judge_ended(self, ended: Sequence[Suspect]) -> dict[Action, int]:
        """Dispose of attempts whose flow runs are all over, child runs included; stop the flow runs of the others."""
        if not ended:
            return {}
        async with self.database.transaction() as session:
            flow_runs = await Sweep(session).flow_runs(ended)
        told = await self.flow_runs.states(frozenset[UUID]().union(*flow_runs.values()))
        # A sub-workflow is a flow run inside another, in its process, and of those we have no record.
        over = [one for one, flow in told.items() if flow in OVER]
        nothing_inside = not over or await self.flow_runs.end_inside(over)
        done = [one for one in ended if all(told.get(run, FlowState.UNKNOWN) in OVER for run in flow_runs[one])]
        if done and nothing_inside:  # else Prefect was not heard to the end; the next sweep asks again
            async with self.database.transaction() as session:
                await Sweep(session).dispose(done)
        judged = Counter({Action.DISPOSE if nothing_inside else Action.LEAVE: len(done)} if done else {})
        left = [one for one in ended if one not in set(done)]
        judged.update([await self._judge_or_log(one, self._stop(one, flow_runs[one], told)) for one in left])
        return dict(judged)

    async def _stop(self, suspect: Suspect, flow_run_ids: frozenset[UUID], told: dict[UUID, FlowState]) -> Action:
        stopped = [one for one in flow_run_ids if self._is_to_stop(suspect, told.get(one, FlowState.UNKNOWN))]
        for flow_run_id in stopped:
            await self.flow_runs.stop(flow_run_id, told[flow_run_id])
        return Action.STOP_FLOW if stopped else Action.LEAVE

    def _is_to_stop(self, suspect: Suspect, flow: FlowState) -> bool:
        return decide(suspect.facts, flow, self.patience) is Action.STOP_FLOW
