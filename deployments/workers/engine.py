"""Prefect's flow engine for one of many flow runs in a process: no signals, no thread and no connection of its own.

The stock engine expects to own its process: it takes SIGTERM, keeps a heartbeat thread, waits for a websocket that
watches for suspension, and joins the run's threads at its end, all of which would hold up every other run of the event
loop. It also reads what the worker has just been told. This one proposes Running and the end, and asks nothing else.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

import httpx
from anyio import CancelScope
from prefect._flow_run_suspension import FlowRunSuspensionRequest, register_flow_run_suspension_request
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, State
from prefect.concurrency._leases import amaintain_concurrency_lease
from prefect.context import AsyncClientContext, FlowRunContext
from prefect.exceptions import Abort, Pause
from prefect.flow_engine import AsyncFlowRunEngine, _flow_parameters
from prefect.flows import Flow
from prefect.logging.loggers import flow_run_logger
from prefect.results import ResultStore, get_result_store
from prefect.states import Cancelled, Crashed
from prefect.task_runners import TaskRunner

from flows.stopping import Reason

LEASE_SECONDS = 300
CLOSING = "closing a flow run"
OUTAGE_SECONDS = 600.0
OUTAGE_PAUSE_SECONDS = 2.0
DRAINED = "The worker ended before the run had left."
CANCELLED = "The run was cancelled."


def is_outage(error: httpx.HTTPError) -> bool:
    """Whether asking again may help: no answer, or one that says that the server is at fault."""
    return not isinstance(error, httpx.HTTPStatusError) or error.response.is_server_error


def handlers_left() -> bool:
    """Whether a handler of any ended run of this process has not ended."""
    return any(thread.name == CLOSING for thread in threading.enumerate())


@cache
def _result_store(flow: Flow[..., Any]) -> ResultStore:
    """Where the flow's results would go. Made once: making it asks the server for the default storage, and waits."""
    made: ResultStore = get_result_store().update_for_flow(flow, _sync=True)  # type: ignore[call-arg, assignment]
    return made


@dataclass
class InlineEngine(AsyncFlowRunEngine[..., Any]):
    """One flow run. `stopped` is set by the worker before it asks the run to leave, and decides how it is recorded."""

    stopped: Reason | None = None
    closing: list[threading.Thread] = field(default_factory=list)

    @classmethod
    def of(cls, flow: Flow[..., Any], flow_run: FlowRun) -> "InlineEngine":
        parameters = _flow_parameters(flow, flow_run, None)
        return cls(
            flow=flow,
            flow_run=flow_run,
            parameters=parameters,
            logger=cast("logging.Logger", flow_run_logger(flow_run, flow)),
        )

    async def run(self) -> None:
        """From Pending to the end. What the flow raises becomes its state; only Prefect's own signals come out."""
        async with self.start():
            while self.is_running():
                async with self.run_context():
                    await cast("Awaitable[Any]", self.call_flow_fn())  # typed as what an async flow returns

    @property
    def heartbeat_seconds(self) -> int | None:
        """No thread for it: the worker sends the heartbeats of all its runs."""
        return None

    @property
    def threads_left(self) -> bool:
        """Whether a handler of this run still runs although the run has ended."""
        return any(thread.is_alive() for thread in self.closing)

    async def begin_run(self) -> State[Any]:
        state = await super().begin_run()
        if state.is_running() and self.flow_run:
            self.flow_run.run_count += 1  # as the server counts, which saves reading the run again
        return state

    async def set_state(self, state: State[Any], force: bool = False) -> State[Any]:
        """A run that was cancelled ends Cancelled, whatever it made of being told to stop."""
        if self.stopped == "cancelled" and (state.is_failed() or state.is_crashed()):
            state, force = Cancelled(message=CANCELLED), True
        deadline = time.monotonic() + OUTAGE_SECONDS
        while True:
            try:
                return await super().set_state(state, force)
            except (httpx.TransportError, httpx.HTTPStatusError) as error:
                if not is_outage(error) or time.monotonic() > deadline:
                    raise
                self.logger.warning("Prefect did not take the state %s; trying again", state.name)
                await asyncio.sleep(OUTAGE_PAUSE_SECONDS)

    @asynccontextmanager
    async def initialize_run(self) -> AsyncGenerator[Any, None]:
        async with AsyncClientContext.get_or_create() as context:
            self._client, self._is_started = context.client, True
            try:
                yield self
            except (Abort, Pause) as signal:
                if self.flow_run and (state := getattr(signal, "state", None)):
                    self.flow_run.state = state
                raise
            except (asyncio.CancelledError, SystemExit, KeyboardInterrupt) as ended:
                await self._record_crash(ended)
                raise
            finally:
                self.logger.info("Finished in state %s", self.state)
                self._client, self._is_started = None, False

    async def _record_crash(self, ended: BaseException) -> None:
        """The run was torn off, or tried to end the process."""
        if self.state.is_final():
            return
        with CancelScope(shield=True):
            if isinstance(ended, asyncio.CancelledError):
                await self.set_state(Crashed(message=DRAINED), force=True)
            else:
                await self.set_state(Crashed(message=f"The flow raised {ended!r}."), force=True)

    @contextmanager
    def setup_flow_run_suspension_request(self) -> Generator[FlowRunSuspensionRequest, None, None]:
        """Nobody suspends our runs from outside: no websocket watches for it."""
        assert self.flow_run is not None  # noqa: S101 - given at the start
        request = self._get_flow_run_suspension_request()
        with register_flow_run_suspension_request(self.flow_run.id, request):
            yield request

    @asynccontextmanager
    async def setup_run_context(self, client: PrefectClient | None = None) -> AsyncGenerator[None, None]:
        assert self.flow_run is not None  # noqa: S101 - given at the start
        async with AsyncExitStack() as stack:
            if lease := self.state.state_details.deployment_concurrency_lease_id:
                await stack.enter_async_context(
                    amaintain_concurrency_lease(lease, LEASE_SECONDS, raise_on_lease_renewal_failure=True)
                )
            stack.enter_context(
                FlowRunContext(
                    flow=self.flow,
                    flow_run=self.flow_run,
                    parameters=self.parameters,
                    client=client or self.client,
                    result_store=_result_store(self.flow),
                    task_runner=stack.enter_context(self._task_runner()),
                    persist_result=bool(self.flow.persist_result),
                    flow_run_suspension_request=self._get_flow_run_suspension_request(),
                )
            )
            self.logger.info("Beginning flow run %r for flow %r", self.flow_run.name, self.flow.name)
            yield

    @contextmanager
    def _task_runner(self) -> Generator[TaskRunner[Any], None, None]:
        """The flow's task runner. Closing it joins its threads, which must not keep the event loop."""
        runner = self.flow.task_runner.duplicate()
        runner.__enter__()
        try:
            yield runner
        finally:
            closing = threading.Thread(target=runner.__exit__, args=(None, None, None), name=CLOSING, daemon=True)
            self.closing.append(closing)
            closing.start()
