"""The worker type `cairn-inline`: every flow run is a task of the worker's own event loop, no process of its own.

For small handlers, and parents that wait for other pools by the hundred. Flows come from this image's
own modules, by the deployment's entrypoint; there is no pull step, no environment and no command for a run.
"""

import asyncio
import importlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

import anyio
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import StateType
from prefect.context import AsyncClientContext, SyncClientContext
from prefect.exceptions import Abort, Pause
from prefect.flows import Flow
from prefect.logging.handlers import APILogHandler
from prefect.workers.base import BaseJobConfiguration, BaseWorkerResult

from deployments import pools
from deployments.workers.draining import Draining
from deployments.workers.engine_process import EngineProcess, is_stock
from domain.shared.together import together
from flows.pools import INLINE, POOLS
from flows.prefect_engine.inline_flow_run import InlineEngine, handlers_left
from flows.prefect_engine.patient_client import patient
from flows.runs import stopping
from flows.tries import light_threads
from flows.tries.concurrency import WORKER_PLACES
from flows.tries.time_budget import CANCEL_LOOK_SECONDS, RUN_CANCEL_SECONDS, RUNS_DRAIN_SECONDS, RUNS_ENDED_SECONDS

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import WorkerFlowRunResponse

AT_ONCE = "CAIRN_RUNS_AT_ONCE"
RUNS_AT_ONCE = 500
DRAIN_LOOK_SECONDS = 0.5
DEPLOYMENT_SECONDS = 60.0
CODE_LOOK_SECONDS = 5.0


class MissingFlow(LookupError):
    """The deployment names a flow that this worker's image does not have."""


class InlineJobConfiguration(BaseJobConfiguration):
    """The empty configuration of a run: it shares its process with others, so nothing can be set for it alone."""


class InlineResult(BaseWorkerResult):
    """The result that Prefect asks for; the flow's state says how the run went."""


@dataclass
class _Running:
    """A run that this worker has claimed."""

    engine: InlineEngine | EngineProcess
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class InlineWorker(Draining):
    """Runs flows in its own event loop."""

    type = INLINE
    job_configuration = InlineJobConfiguration
    _description = "Runs flows of its own image inside the worker's process: for small work and waiting parents."
    _display_name = "Cairn, in process"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        usual = WORKER_PLACES if is_stock() else RUNS_AT_ONCE
        super().__init__(*arguments, **named | {"limit": named.get("limit") or int(os.environ.get(AT_ONCE, usual))})
        self._running: dict[UUID, _Running] = {}
        self._entrypoints: dict[UUID, tuple[str, float]] = {}
        self._queues: dict[UUID, str] = {}
        self._recycle = False

    @property
    def at_once(self) -> int:
        """How many runs the worker takes: many, since most of them wait."""
        return min(self._limit or RUNS_AT_ONCE, WORKER_PLACES)

    @classmethod
    def get_default_base_job_template(cls) -> dict[str, Any]:
        """No variables: what a template offers is refused here, not ignored."""
        return pools.template(cls.type, POOLS.home)

    # --- the worker's life ---

    async def setup(self) -> None:
        """Open one client for the worker and all its runs, since each client has a pool and a CA store."""
        stopping.share_process()
        await self._exit_stack.enter_async_context(AsyncClientContext())
        self._exit_stack.enter_context(SyncClientContext())
        await super().setup()
        for watch in (self._watch_cancelled, self._watch_code):
            self._in_background(watch)

    async def _setup_cancellation_observer(self) -> None:
        """Prefect's own watches runs that have not begun; ours asks for all of them at once."""

    async def _hand_over(self) -> None:
        """Ask every run to hand over within its time; abort those that are still there.

        A run that is just being taken is nobody else's any more: it begins, and is asked then.
        """
        with anyio.move_on_after(RUNS_DRAIN_SECONDS):
            while self._submitting_flow_run_ids:
                for run in self._running.values():
                    run.engine.stopped = run.engine.stopped or "draining"
                stopping.stop_all_flow_runs("draining")  # repeated: a run may have begun just now
                await asyncio.sleep(DRAIN_LOOK_SECONDS)
        for run in list(self._running.values()):
            run.scope.cancel()
        with anyio.move_on_after(RUNS_ENDED_SECONDS):
            await together(*(run.ended.wait() for run in list(self._running.values())))

    def _leave(self) -> None:
        """Exit at once where a handler is left, since it would keep the interpreter from ending."""
        if self._recycle or handlers_left():
            APILogHandler().flush()
            sys.stdout.flush()
            os._exit(0)

    # --- taking runs ---

    async def _submit_scheduled_flow_runs(self, flow_run_response: "list[WorkerFlowRunResponse]") -> "list[FlowRun]":
        """Begin what is new, in the server's order, while there is room."""
        assert self._runs_task_group is not None  # noqa: S101 - set up before the first look
        begun = []
        for flow_run in (entry.flow_run for entry in flow_run_response):
            if self.draining:  # told to end while Prefect was asked
                break
            if flow_run.id in self._submitting_flow_run_ids:
                continue
            try:
                self.limiter.acquire_on_behalf_of_nowait(flow_run.id)
            except anyio.WouldBlock:
                break
            self._submitting_flow_run_ids.add(flow_run.id)
            self._runs_task_group.start_soon(self._submit_run, flow_run)
            begun.append(flow_run)
        return begun

    async def _submit_run(self, flow_run: "FlowRun") -> None:
        """Claim the run and see it to its end. Whatever happens to it, the worker lives."""
        self._takes(flow_run)
        try:
            if not self.draining and (flow := await self._claim(flow_run)):
                await self._execute(flow, flow_run)
        except (Abort, Pause) as signal:
            self._logger.info("flow run %s was taken from this worker: %s", flow_run.id, signal)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - one run must not end the others
            self.get_flow_run_logger(flow_run).error("The run could not be executed: %s", error, exc_info=error)
            await self._propose_crashed_state(flow_run, f"{type(error).__name__}: {error}")
        finally:
            self._submitting_flow_run_ids.discard(flow_run.id)
            self._release_limit_slot(flow_run.id)

    async def _claim(self, flow_run: "FlowRun") -> Flow[..., Any] | None:
        """Claim the run, also after an outage of Prefect, and return its flow; None where it is not ours."""
        with patient():
            if not await self._propose_pending_state(flow_run):
                return None
            flow_run.work_pool_name = self._work_pool_name
            flow_run.work_queue_name = await self._queue_name(flow_run)
            return _load(await self._entrypoint(flow_run))

    async def run(
        self, flow_run: "FlowRun", configuration: InlineJobConfiguration, task_status: Any = None
    ) -> InlineResult:
        """Await the flow here. Prefect's way in; ours asks less."""
        await self._execute(_load(await self._entrypoint(flow_run)), flow_run)
        return InlineResult(identifier=str(flow_run.id), status_code=0)

    async def _execute(self, flow: Flow[..., Any], flow_run: "FlowRun") -> None:
        engine = (
            EngineProcess(flow_run, await self._entrypoint(flow_run)) if is_stock() else InlineEngine.of(flow, flow_run)
        )
        running = self._running[flow_run.id] = _Running(engine)
        try:
            with running.scope:
                await engine.run_flow()
        finally:
            del self._running[flow_run.id]
            running.ended.set()
            self._in_background(self._notice_threads, engine)

    async def _queue_name(self, flow_run: "FlowRun") -> str | None:
        """Return the queue that the run came by, which its child runs take too."""
        queue_id = flow_run.work_queue_id
        if queue_id is not None and queue_id not in self._queues:
            self._queues[queue_id] = (await self.client.read_work_queue(queue_id)).name
        return self._queues.get(queue_id) if queue_id else None

    async def _entrypoint(self, flow_run: "FlowRun") -> str:
        """Return where the deployment says its flow is. It is read now and then, as a rollout may change it."""
        if flow_run.deployment_id is None:
            raise MissingFlow("The flow run has no deployment, so nothing says which flow it is.")
        known, read_at = self._entrypoints.get(flow_run.deployment_id, ("", -DEPLOYMENT_SECONDS))
        if time.monotonic() - read_at < DEPLOYMENT_SECONDS:
            return known
        deployment = await self.client.read_deployment(flow_run.deployment_id)
        if not deployment.entrypoint:
            raise MissingFlow(f"Deployment {deployment.name} has no entrypoint. Deploy it by `cairn deploy`.")
        self._entrypoints[deployment.id] = (deployment.entrypoint, time.monotonic())
        return deployment.entrypoint

    async def _notice_threads(self, engine: InlineEngine | EngineProcess) -> None:
        """Notice a handler that overstays: its run is fenced, but its thread ends only with the process."""
        for _ in range(20):
            if not engine.threads_left:
                return
            await asyncio.sleep(RUNS_ENDED_SECONDS / 20)
        self._logger.warning("a handler did not leave; this process ends once it is idle")
        self._recycle = True

    # --- watching ---

    async def _watch_cancelled(self) -> None:
        """Look for cancelled runs by one question for all, and by none while there are none."""
        cancelling = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.CANCELLING])))
        pool = WorkPoolFilter(name=WorkPoolFilterName(any_=[self._work_pool_name]))
        while True:
            await asyncio.sleep(CANCEL_LOOK_SECONDS)
            if not self._running:
                continue
            for flow_run in await self.client.read_flow_runs(flow_run_filter=cancelling, work_pool_filter=pool):
                running = self._running.get(flow_run.id)
                if running and running.engine.stopped != "cancelled":
                    self._in_background(self._cancel, running)

    async def _cancel(self, running: _Running) -> None:
        """Ask the run to leave, and abort it if it does not."""
        running.engine.stopped = "cancelled"
        assert running.engine.flow_run is not None  # noqa: S101 - an engine has one
        with anyio.move_on_after(RUN_CANCEL_SECONDS):
            while not running.ended.is_set():
                stopping.stop_flow_run(running.engine.flow_run.id, "cancelled")  # repeated: it may have begun just now
                with anyio.move_on_after(0.5):
                    await running.ended.wait()
        running.scope.cancel()

    async def _watch_code(self) -> None:
        """End when idle after a handler overstayed; take no more runs once the code on disk has changed."""
        from deployments.warm.zygote import code_version

        ours = code_version()
        while True:
            await asyncio.sleep(CODE_LOOK_SECONDS)
            self._recycle |= light_threads.overstaying() > 0
            if self._recycle and not self._submitting_flow_run_ids:
                self.drain()
            if code_version() != ours:
                self._logger.info("the code has changed: this worker hands over its runs and ends")
                self.drain()

    def _in_background(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Do the work beside the runs until the worker ends; log a failure and begin again."""
        assert self._runs_task_group is not None  # noqa: S101 - set up before anything asks

        async def until_ended() -> None:
            with anyio.CancelScope() as scope:
                self._scheduled_task_scopes.add(scope)
                while True:
                    try:
                        await work(*arguments)
                        break
                    except Exception:
                        self._logger.warning("background work failed; trying again", exc_info=True)
                        await asyncio.sleep(CANCEL_LOOK_SECONDS)
            self._scheduled_task_scopes.discard(scope)

        self._runs_task_group.start_soon(until_ended)


def _load(entrypoint: str) -> Flow[..., Any]:
    """The flow object at `package.module.name`."""
    module, _, name = entrypoint.rpartition(".")
    try:
        flow = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise MissingFlow(
            f"This worker has no flow {entrypoint} ({error}). Run workers and `cairn deploy` from the same release."
        ) from error
    if not isinstance(flow, Flow) or not flow.isasync:
        raise MissingFlow(f"{entrypoint} is no async flow; a worker of type {INLINE} runs no other.")
    return flow
