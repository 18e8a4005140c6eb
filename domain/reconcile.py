"""The sweep: compares what we know of attempts with what Prefect says, and acts by the rules' table.

It relies on no hook, event or automation, and on Prefect only for being quicker. Any number of sweeps may run.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from domain import outbox
from domain.db import Database
from domain.errors import DomainError
from domain.repositories.sweep import Suspect, Sweep
from domain.rules.reconcile import OVER, Action, FlowState, Patience, decide
from domain.services.runs import RunLifecycle

log = logging.getLogger("cairn.reconcile")


class FlowRuns(Protocol):
    """What the sweep asks of Prefect. Its silence is an answer: `unknown`."""

    async def states(self, flow_run_ids: Iterable[UUID]) -> dict[UUID, FlowState]: ...

    async def find(self, key: str) -> tuple[UUID | None, FlowState]: ...

    async def stop(self, flow_run_id: UUID, flow: FlowState) -> None: ...


@dataclass(frozen=True)
class Reconciler:
    """Looks every so often."""

    database: Database
    flow_runs: FlowRuns
    every_seconds: float
    patience: Patience
    max_attempts: int

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(self.every_seconds)
            try:
                await self.sweep()
            except (SQLAlchemyError, OSError) as error:
                log.warning("sweep failed and is tried again", extra={"error": type(error).__name__})

    async def sweep(self) -> dict[Action, int]:
        """Judge every quiet attempt, each in a transaction of its own; returns how often what was done."""
        async with self.database.transaction() as session:
            quiet = await Sweep(session).quiet(self.patience.heartbeat)
            ended = await Sweep(session).ended(min(self.patience.heartbeat, self.patience.stop_fenced))
        told = await self.flow_runs.states({one.flow_run_id for one in [*quiet, *ended] if one.flow_run_id})
        done: dict[Action, int] = {}
        for suspect in quiet:
            action = await self._judge_live(suspect, told)
            done[action] = done.get(action, 0) + 1
        for suspect in ended:
            action = await self._judge_ended(suspect)
            done[action] = done.get(action, 0) + 1
        return done

    async def _judge_live(self, suspect: Suspect, told: dict[UUID, FlowState]) -> Action:
        """Decide, and decide again under the locks: it may have spoken or ended since the look."""
        flow_run_id, flow = suspect.flow_run_id, FlowState.UNKNOWN
        if flow_run_id is None:
            flow_run_id, flow = await self.flow_runs.find(
                outbox.key(suspect.workflow_id, suspect.run_id, suspect.number)
            )
        else:
            flow = told.get(flow_run_id, FlowState.UNKNOWN)
        action = decide(suspect.facts, flow, self.patience)
        if action is Action.WARN:
            facts = {"run_id": str(suspect.run_id), "flow": flow.value, "quiet_seconds": suspect.facts.quiet_seconds}
            log.warning("attempt waits longer than it should", extra=facts)
        if action is Action.LINK and flow_run_id is not None:
            await outbox.link(self.database, suspect.run_id, suspect.number, flow_run_id)
        if action in {Action.LOSE, Action.FAIL_ENDED, Action.CANCEL}:
            return await self._act(suspect, flow)
        return action

    async def _act(self, suspect: Suspect, flow: FlowState) -> Action:
        try:
            async with self.database.transaction() as session:
                lifecycle = RunLifecycle(session, self.max_attempts)
                return await lifecycle.reconcile(suspect, flow, self.patience)
        except DomainError as error:
            log.info("attempt settled itself", extra={"run_id": str(suspect.run_id), "reason": error.detail})
            return Action.LEAVE

    async def _judge_ended(self, suspect: Suspect) -> Action:
        """See that every flow run of an attempt that is over ends too, its children included."""
        async with self.database.transaction() as session:
            flow_run_ids = await Sweep(session).flow_runs(suspect)
        told = await self.flow_runs.states(flow_run_ids)
        if all(told.get(one, FlowState.UNKNOWN) in OVER for one in flow_run_ids):
            async with self.database.transaction() as session:
                await Sweep(session).dispose(suspect)
            return Action.DISPOSE
        stopped = [one for one in flow_run_ids if self._is_to_stop(suspect, told.get(one, FlowState.UNKNOWN))]
        for flow_run_id in stopped:
            await self.flow_runs.stop(flow_run_id, told[flow_run_id])
        return Action.STOP_FLOW if stopped else Action.LEAVE

    def _is_to_stop(self, suspect: Suspect, flow: FlowState) -> bool:
        return decide(suspect.facts, flow, self.patience) is Action.STOP_FLOW
