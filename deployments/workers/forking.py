"""The worker of process pools: Prefect's process worker, which hands each run to a zygote, and can be drained."""

import abc
import asyncio
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prefect.states import Cancelled
from prefect.workers.process import ProcessJobConfiguration, ProcessWorker, ProcessWorkerResult

from deployments.pools import FORK_RUNS
from deployments.workers.admission import Grant, HostSize, Told, WaitingRun, admitted
from deployments.workers.draining import Draining
from deployments.workers.host import size_here
from flows.prefect_engine.patient_client import patient
from flows.tries.concurrency import WORKER_PLACES
from flows.tries.time_budget import RUNS_DRAIN_SECONDS, RUNS_ENDED_SECONDS

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import WorkerFlowRunResponse

LOOK_SECONDS = 0.2
TRIES = "CAIRN_TRIES_PER_RUN"  # read by `flows.settings`
LAUNCHER = Path(__file__).resolve().parent.parent / "warm" / "launcher.py"


class _Begun:
    """Receives the pid of a run's process, as Prefect's task status does."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self.started = tell


class ForkingJobConfiguration(ProcessJobConfiguration):
    """How a run starts here: by this machine's own launcher, unless its pool says otherwise.

    Only the worker knows where the launcher is; a pool's template goes to workers of every machine.
    """

    def prepare_for_flow_run(self, *arguments: Any, **named: Any) -> None:
        """Choose the launcher before Prefect chooses a fresh interpreter."""
        if self.command is None and self.env.get(FORK_RUNS) != "off":
            self.command = shlex.join([sys.executable, "-I", "-S", str(LAUNCHER)])
        super().prepare_for_flow_run(*arguments, **named)


class ForkingWorker(Draining, ProcessWorker, abc.ABC):  # an abstract base is not registered: the type stays Prefect's
    """Prefect's process worker that knows each run's process, so that SIGTERM reaches it."""

    job_configuration = ForkingJobConfiguration

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named | {"limit": named.get("limit") or WORKER_PLACES})
        self._pids: dict[UUID, int] = {}
        self._host = size_here()
        self._grants: dict[UUID, Grant] = {}
        self._passed_over: dict[UUID, float] = {}  # since when
        self._at_work: set[UUID] = set()

    @property
    def host(self) -> HostSize:
        return self._host

    async def _get_scheduled_flow_runs(self) -> "list[WorkerFlowRunResponse]":
        """Of what Prefect offers, what this host has room for beside what it does."""
        offered = await super()._get_scheduled_flow_runs()
        now, busy = time.monotonic(), self._submitting_flow_run_ids | self._at_work
        self._grants = {run_id: grant for run_id, grant in self._grants.items() if run_id in busy}
        new = [one.flow_run for one in offered if one.flow_run.id not in busy]
        since = self._passed_over
        waiting = [WaitingRun(run.id, Told.of(run.job_variables), now - since.get(run.id, now)) for run in new]
        held = [grant.needs for grant in self._grants.values()]
        grants = admitted(waiting, held, self._host, self.at_once)
        self._passed_over = {run.id: since.get(run.id, now) for run in waiting if run.id not in grants}
        self._grants |= grants
        return [one for one in offered if one.flow_run.id in grants or one.flow_run.id in busy]

    async def _submit_run(self, flow_run: "FlowRun") -> None:
        """Take a run up, be it after an outage of Prefect. Whatever becomes of it, the worker lives and its other runs.

        The stock worker ends with all that it runs where it cannot read the deployment of one.
        """
        self._takes(flow_run)
        try:
            with patient():
                await super()._submit_run(flow_run)
        except Exception:
            self._logger.exception("flow run %s could not be taken up", flow_run.id)
            self._submitting_flow_run_ids.discard(flow_run.id)
            self._release_limit_slot(flow_run.id)

    async def run(
        self, flow_run: "FlowRun", configuration: ProcessJobConfiguration, task_status: Any = None
    ) -> ProcessWorkerResult:
        """Run like the stock worker, but keep the pid, without which a run cannot be told to leave."""

        def begun(pid: int) -> None:
            self._pids[flow_run.id] = pid
            if task_status is not None:
                task_status.started(pid)

        told: Any = _Begun(begun)
        self._at_work.add(flow_run.id)
        if (grant := self._grants.get(flow_run.id)) and grant.tries:
            configuration.env |= {TRIES: str(grant.tries)}
        try:
            return await super().run(flow_run, configuration, told)
        finally:
            self._at_work.discard(flow_run.id)
            self._pids.pop(flow_run.id, None)

    async def _cancel_run(self, flow_run_id: UUID) -> None:
        """Call a run Cancelled that is cancelled as it begins, once nothing of it is left here.

        The stock worker does so at once where it knows no process yet, and the process that then begins does its work
        all the same: Prefect lets what is Cancelled become Running, and refuses it to what is Cancelling.
        """
        while flow_run_id in self._submitting_flow_run_ids | self._at_work:  # noqa: ASYNC110 - sets tell nobody
            await asyncio.sleep(LOOK_SECONDS)
        try:
            with patient():
                state = (await self.client.read_flow_run(flow_run_id)).state
                if state is not None and state.is_cancelling():
                    await self.client.set_flow_run_state(
                        flow_run_id, Cancelled(message="It was cancelled as it began.")
                    )
        except Exception:  # it would end the worker
            self._logger.exception("flow run %s could not be called Cancelled", flow_run_id)

    def _emit_flow_run_submitted_event(self, configuration: Any) -> None:
        """Emit nothing: the run's states say as much, and each event names fifteen more things."""

    async def _hand_over(self) -> None:
        """Ask every run's process to hand over; end those that then are still there."""
        await self._tell_until_gone(signal.SIGTERM, RUNS_DRAIN_SECONDS)
        await self._tell_until_gone(signal.SIGKILL, RUNS_ENDED_SECONDS)

    async def _tell_until_gone(self, number: signal.Signals, seconds: float) -> None:
        """Send the signal once to each process, also to those that begin meanwhile."""
        told: set[int] = set()
        deadline = time.monotonic() + seconds
        while (self._pids or self._submitting_flow_run_ids) and time.monotonic() < deadline:
            for pid in set(self._pids.values()) - told:
                told.add(pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            await asyncio.sleep(LOOK_SECONDS)
