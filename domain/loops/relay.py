"""Sends attempts to Prefect. Any number of relays may run; leases keep them out of each other's way."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from domain.adapters.prefect_runs import NewFlowRun, PrefectRefused, PrefectRuns, Unclear
from domain.db import Database, failures_logged
from domain.errors import DomainError
from domain.failpoints import hit
from domain.repositories import outbox
from domain.repositories.outbox import Dispatch
from domain.rules.fairness import Turns
from domain.rules.reconcile import FlowState
from domain.rules.texts import shown
from domain.services.runs.endings import RunLifecycle
from domain.shared.database_address import DatabaseAddress
from domain.shared.together import each_to_its_end

log = logging.getLogger("cairn.relay")
BATCH = 25
BATCHES_AT_ONCE = 2  # while Prefect makes the flow runs of one, the next is chosen and the last is noted
FULL_SECONDS = 0.2  # between two looks while what waits finds no room


@dataclass(frozen=True)
class Relay:
    """Claims attempts and creates their flow runs, woken by notifications and, failing those, by the clock."""

    database: Database
    address: DatabaseAddress
    poll_seconds: float
    in_flight_per_pool: int = outbox.IN_FLIGHT
    lease_seconds: float = outbox.LEASE_SECONDS
    retry_seconds: float = 5.0
    turns: Turns = field(default_factory=Turns)

    async def run(self) -> None:
        """Work until cancelled; an outage of the database or of Prefect is waited out."""
        async with PrefectRuns() as prefect:
            while True:
                try:
                    async with outbox.listener(self.address) as listener:
                        await self._work(prefect, listener)
                except (psycopg.OperationalError, SQLAlchemyError, OSError) as error:
                    log.warning("relay lost its database and tries again", extra={"error": type(error).__name__})
                    await asyncio.sleep(self.retry_seconds)

    async def _work(self, prefect: PrefectRuns, listener: psycopg.AsyncConnection) -> None:
        under_way: set[asyncio.Task[None]] = set()
        try:
            while True:
                claimed = await self._claim()
                if claimed.dispatches:
                    under_way.add(asyncio.create_task(self._send_all(prefect, claimed.dispatches)))
                    await _until_fewer(under_way, BATCHES_AT_ONCE)
                elif under_way:
                    await _until_fewer(under_way, len(under_way))
                else:  # that room has become free, nobody is told
                    await _wait(
                        listener, min(FULL_SECONDS, self.poll_seconds) if claimed.is_full else self.poll_seconds
                    )
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def send_due(self, prefect: PrefectRuns) -> outbox.Claimed:
        """Send one batch of what is due; returns what was claimed."""
        claimed = await self._claim()
        await self._send_all(prefect, claimed.dispatches)
        return claimed

    async def _claim(self) -> outbox.Claimed:
        return await outbox.claim_in_turn(self.database, BATCH, self.in_flight_per_pool, self.lease_seconds, self.turns)

    async def _send_all(self, prefect: PrefectRuns, dispatches: Sequence[Dispatch]) -> None:
        """Send those of each workflow by one question, or each by its own."""
        of_workflow: dict[str, list[Dispatch]] = {}
        for dispatch in dispatches:
            of_workflow.setdefault(dispatch.workflow_id, []).append(dispatch)
        await each_to_its_end(self._send_group(prefect, group) for group in of_workflow.values())

    async def _send_group(self, prefect: PrefectRuns, group: Sequence[Dispatch]) -> None:
        if not await self._sent_together(prefect, group):
            await each_to_its_end(self._send_or_log(prefect, dispatch) for dispatch in group)

    async def _sent_together(self, prefect: PrefectRuns, group: Sequence[Dispatch]) -> bool:
        """Whether Prefect made all of these at once."""
        with failures_logged(log, "attempts could not be sent together", run_id=str(group[0].run_id)):
            made = await prefect.create_together(
                outbox.deployment_name(group[0].workflow_id), [_flow_run_of(dispatch) for dispatch in group]
            )
            if made is not None:
                hit("relay.created")
                await outbox.link_together(self.database, list(zip(group, made, strict=True)))
                return True
        return False

    async def _send_or_log(self, prefect: PrefectRuns, dispatch: Dispatch) -> None:
        """Send one attempt; after an unknown failure its lease runs out and it is sent again."""
        with failures_logged(log, "attempt could not be sent", run_id=str(dispatch.run_id)):
            await self._send(prefect, dispatch)

    async def _send(self, prefect: PrefectRuns, dispatch: Dispatch) -> None:
        deployment = outbox.deployment_name(dispatch.workflow_id)
        try:
            flow_run_id = await prefect.create(deployment, _flow_run_of(dispatch))
        except Unclear as error:
            # The lease stays: the same key, sent again later, cannot make a second run.
            log.warning("attempt not sent", extra={"run_id": str(dispatch.run_id), "reason": str(error)})
            prefect.forget(deployment)
            await outbox.retry_later(self.database, dispatch, self.retry_seconds)
        except PrefectRefused as error:
            await self._park_or_link(prefect, dispatch, str(error))
        else:
            hit("relay.created")
            await outbox.link(self.database, dispatch.run_id, dispatch.number, flow_run_id)

    async def _park_or_link(self, prefect: PrefectRuns, dispatch: Dispatch, reason: str) -> None:
        """Park a refused run, unless an earlier try created its flow run: then link that one."""
        key = outbox.key(dispatch.workflow_id, dispatch.run_id, dispatch.number)
        flow_run_id, state = await prefect.find(key)
        if flow_run_id is not None:
            await outbox.link(self.database, dispatch.run_id, dispatch.number, flow_run_id)
        elif state is FlowState.MISSING:
            log.error("run parked", extra={"run_id": str(dispatch.run_id), "reason": reason})
            with contextlib.suppress(DomainError):  # it was cancelled in the meantime
                async with self.database.transaction() as session:
                    await RunLifecycle(session).refuse_dispatch(dispatch.run_id, dispatch.token, reason)
        else:
            await outbox.retry_later(self.database, dispatch, self.retry_seconds)


async def _wait(listener: psycopg.AsyncConnection, seconds: float) -> None:
    """Wait until a commit is notified, or until the time is over."""
    with contextlib.suppress(StopAsyncIteration):
        await anext(listener.notifies(timeout=seconds, stop_after=1))


async def _until_fewer(tasks: set[asyncio.Task[None]], count: int) -> None:
    """Wait until fewer than so many are under way; raise what one of them raised."""
    while len(tasks) >= count:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            tasks.remove(task)
            task.result()


def _flow_run_of(dispatch: Dispatch) -> NewFlowRun:
    return NewFlowRun(
        key=outbox.key(dispatch.workflow_id, dispatch.run_id, dispatch.number),
        name=flow_run_name(dispatch),
        parameters={"run_id": str(dispatch.run_id), "attempt_token": dispatch.token},
        tags=flow_run_tags(dispatch),
        queue=dispatch.priority,
    )


def flow_run_name(dispatch: Dispatch) -> str:
    """Name the flow run by what operators recognise: platform, asset, version, revision, attempt."""
    if dispatch.asset_id is None:
        return f"{dispatch.workflow_id} {dispatch.run_id.hex[:8]} #{dispatch.number}"
    place = f"{dispatch.asset_id[:8]} {shown(dispatch.label or '')} r{dispatch.revision}"
    return f"{shown(dispatch.platform_id or '')} {place} #{dispatch.number}"


def flow_run_tags(dispatch: Dispatch) -> list[str]:
    """What operators filter by; the deployment adds `cairn` and its pool. No partner's text: tags reach every task run,
    where a tag that bears the name of a concurrency limit is held by it."""
    tags = [f"workflow:{dispatch.workflow_id}", f"priority:{dispatch.priority}", f"request:{dispatch.request_id}"]
    return [f"platform:{shown(dispatch.platform_id)}", *tags] if dispatch.platform_id else tags
