"""Lets both kinds of worker end in order: take nothing new, hand over their runs, leave in time."""

import abc
import asyncio
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx
from prefect.workers.base import BaseWorker

from deployments.workers.admission import HostSize
from deployments.workers.looks import Looks
from flows.pools import SHARED
from flows.prefect_engine.flow_run import OUTAGE_PAUSE_SECONDS, is_outage
from flows.tries.concurrency import WORKER_PLACES
from flows.tries.time_budget import WORKER_ENDED_SECONDS

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import WorkerFlowRunResponse

LEFT_SECONDS = 12.0  # more than the time between two looks of Prefect's own workers
LOOK_SECONDS = 30.0  # less than what the health check takes for a worker that hangs


class Draining(BaseWorker[Any, Any, Any], abc.ABC):
    """A worker that SIGTERM and SIGINT drain; a second one ends it at once."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._told = asyncio.Event()
        self.looks = Looks()
        self._looking = asyncio.Lock()
        self._in_hand: dict[UUID, str] = {}  # our runs, by the flow runs that do them or parts of them

    def drain(self) -> None:
        """Begin to drain. The worker has ended within 30 s."""
        self._told.set()

    @property
    def draining(self) -> bool:
        return self._told.is_set()

    @property
    def ready(self) -> bool:
        """Whether the worker takes runs."""
        return self._has_successfully_synced and not self.draining

    @property
    def at_once(self) -> int:
        """How many runs the worker does at once: its limit, else twice the number of processors."""
        return self._limit or WORKER_PLACES

    @property
    def host(self) -> HostSize | None:
        """How large its host is, where runs are weighed against that."""
        return None

    @abc.abstractmethod
    async def _hand_over(self) -> None:
        """Make every run leave, and check that none is left."""

    def _leave(self) -> None:
        """Do what comes last."""

    async def start(
        self, run_once: bool = False, with_healthcheck: bool = False, printer: Callable[..., None] = print
    ) -> None:
        """Work until told to end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        serving = asyncio.create_task(super().start(run_once, with_healthcheck, printer))
        told = asyncio.create_task(self._told.wait())
        try:
            await asyncio.wait({serving, told}, return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                await self._hand_over()
        finally:
            told.cancel()
            finished = serving.done()
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving
        if not finished:
            printer(f"Worker {self.name!r} has ended.")
        self._leave()

    async def get_and_submit_flow_runs(self) -> list[Any]:
        """Look for runs, if it is time for that."""
        return await self.look_now() if self.looks.is_due() else []

    async def look_now(self) -> list[Any]:
        """Look for runs. While Prefect is away the worker waits; the stock one ends, and its runs with it."""
        async with self._looking:  # a second look at the same time would find the same
            if self.draining:
                return []
            begun = await self._look()
            self.looks.looked(found=bool(begun))
            return begun

    async def _look(self) -> list[Any]:
        try:
            return await super().get_and_submit_flow_runs()
        except (httpx.TransportError, httpx.HTTPStatusError, TimeoutError) as error:
            if isinstance(error, httpx.HTTPError) and not is_outage(error):
                raise
            self._logger.warning("Prefect does not answer (%s); asking again", type(error).__name__)
            # The health check asks when it was that the worker looked: it did now, and a restart would help nobody.
            self._last_polled_time = datetime.now(UTC)
            await asyncio.sleep(OUTAGE_PAUSE_SECONDS)
            return []

    async def _get_scheduled_flow_runs(self) -> "list[WorkerFlowRunResponse]":
        """Prefect's client alone would ask for seven minutes."""
        async with asyncio.timeout(LOOK_SECONDS):
            found = await super()._get_scheduled_flow_runs()
        return [one for one in found if not self._leaves_to_others(one.flow_run, found)]

    def _takes(self, flow_run: "FlowRun") -> None:
        """Note which run of ours the flow run does, or a part of which."""
        self._in_hand[flow_run.id] = str(flow_run.parameters.get("run_id"))

    def _leaves_to_others(self, flow_run: "FlowRun", found: "list[WorkerFlowRunResponse]") -> bool:
        """Whether this worker does as much of the run's fan-out as it can without this one, and others may still come.

        A worker of Prefect's own looks every ten seconds, ours several times a second and would take all of them.
        """
        run_id, age = str(flow_run.parameters.get("run_id")), LEFT_SECONDS
        if (tag := f"{SHARED}{run_id}") not in flow_run.tags:
            return False
        if flow_run.created is not None:
            age = (datetime.now(UTC) - flow_run.created).total_seconds()
        first = next(one.flow_run.id for one in found if tag in one.flow_run.tags)
        return age < LEFT_SECONDS and (run_id in self._in_hand.values() or flow_run.id != first)

    def _release_limit_slot(self, flow_run_id: UUID) -> None:
        """The run has ended here, or was not taken: its place may be waited for."""
        self._in_hand.pop(flow_run_id, None)
        super()._release_limit_slot(flow_run_id)
        self.looks.hurry()

    async def _sync_and_initialize(self) -> None:
        """Report to Prefect that the worker is there. The stock worker ends after some minutes of failures."""
        try:
            await super()._sync_and_initialize()
        except (httpx.TransportError, httpx.HTTPStatusError) as error:
            if not is_outage(error):
                raise
            self._logger.warning("Prefect does not hear that this worker is there (%s)", type(error).__name__)

    def _on_signal(self, number: signal.Signals) -> None:
        if self.draining:
            os._exit(128 + number)
        self._logger.info("told to end: no new runs, those that run are asked to hand over")
        self.drain()
        _exit_after_deadline()


def _exit_after_deadline() -> None:
    """Exit in time whatever Prefect's client and its threads still wait for."""
    timer = threading.Timer(WORKER_ENDED_SECONDS, os._exit, (0,))
    timer.daemon = True
    timer.start()
