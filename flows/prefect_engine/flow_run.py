"""Prefect's flow engine for one of many flow runs in a process: no signals, no thread and no connection of its own.

The stock engine expects to own its process: it takes SIGTERM, keeps a heartbeat thread, watches for suspension, and
reads what it has just written. The one file that leans on its inner structure, with `flows.prefect_engine.task_run`.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from uuid import UUID

import httpx
from anyio import CancelScope, move_on_after
from prefect import Task
from prefect._flow_run_suspension import FlowRunSuspensionRequest, register_flow_run_suspension_request
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.context import AsyncClientContext, FlowRunContext
from prefect.exceptions import Abort, Pause
from prefect.flow_engine import AsyncFlowRunEngine
from prefect.flows import Flow
from prefect.logging.loggers import flow_run_logger
from prefect.states import Crashed, Pending

from flows.handlers.errors import Stopped
from flows.runs.stopping import Stop
from flows.tries.time_budget import OUTAGE_SECONDS, RUN_RECORDED_SECONDS

log = logging.getLogger("cairn.prefect")
Answer = TypeVar("Answer")
OUTAGE_PAUSE_SECONDS = 2.0
CUT_SHORT = "Cut short: its time was up, or the run around it has ended."


def is_outage(error: httpx.HTTPError) -> bool:
    """Whether asking again may help: no answer, or one that says that the server is at fault."""
    return not isinstance(error, httpx.HTTPStatusError) or error.response.is_server_error


async def ask_until_answered(ask: Callable[[], Awaitable[Answer]], about: str, stop: Stop | None = None) -> Answer:
    """Ask Prefect until it answers, through any outage. It may be asked twice. A stop ends the waiting at once."""
    deadline = time.monotonic() + OUTAGE_SECONDS
    while True:
        try:
            async with until_stopped(stop):
                return await ask()
        except (httpx.TransportError, httpx.HTTPStatusError) as error:
            if not is_outage(error) or time.monotonic() > deadline:
                raise
            if stop is not None and stop.is_set():
                raise Stopped("The run was asked to stop.") from error
            log.warning("Prefect does not answer for %s (%s); asking again", about, type(error).__name__)
            await asyncio.sleep(OUTAGE_PAUSE_SECONDS)


@asynccontextmanager
async def until_stopped(stop: Stop | None) -> AsyncGenerator[None, None]:
    """Cut the block short once the run is to stop: Prefect's client alone would ask for minutes."""
    loop, bound = asyncio.get_running_loop(), asyncio.timeout(None)
    try:
        async with bound:
            if stop is not None:
                stop.on_set(lambda: loop.call_soon_threadsafe(_end_now, bound))
            yield
    except TimeoutError:
        if not bound.expired():
            raise
        raise Stopped("The run was asked to stop.") from None


def _end_now(bound: asyncio.Timeout) -> None:
    with suppress(RuntimeError):  # its block has been left
        bound.reschedule(asyncio.get_running_loop().time())


@dataclass
class QuietEngine(AsyncFlowRunEngine[..., Any]):
    """One flow run of a process that is not its own."""

    async def run_flow(self) -> None:
        """Run the flow from Pending to its end. What the flow raises becomes its state; Prefect's signals come out."""
        async with self.start():
            while self.is_running():
                async with self.run_context():
                    await cast("Awaitable[Any]", self.call_flow_fn())  # typed as what an async flow returns

    @property
    def heartbeat_seconds(self) -> int | None:
        """No thread for it: whoever runs many flows sends the heartbeats of all of them."""
        return None

    def torn_off(self) -> State[Any]:
        """How a run is recorded that was cancelled where it stood."""
        return State(type=StateType.CANCELLED, message=CUT_SHORT)

    async def set_state(self, state: State[Any], force: bool = False) -> State[Any]:
        """An outage of Prefect is waited out, or every run would end with it.

        Prefect lets a run that is to be cancelled become Cancelled and nothing else, be it Running or Completed. Who is
        refused ends it so: there is nobody else who would.
        """
        ask = super().set_state
        told = await ask_until_answered(lambda: ask(state, force), f"the state {state.name}")
        if told.is_cancelling():
            ended: State[Any] = State(type=StateType.CANCELLED, message=f"It was cancelled before it was {state.name}.")
            told = await ask_until_answered(lambda: ask(ended), "its cancellation")
        if told.is_final() and not told.is_completed():
            self._telemetry.end_span_on_failure(told.message)  # Prefect's engine ends it well, whatever is returned
        return told

    @asynccontextmanager
    async def initialize_run(self) -> AsyncGenerator[Any, None]:
        async with AsyncClientContext.get_or_create() as context:
            self._client, self._is_started = context.client, True
            try:
                if self.flow_run is None:
                    self.flow_run = await self.create_flow_run(context.client)
                await self._begin_span(self.flow_run)
                yield self
            except (Abort, Pause) as signal:
                if self.flow_run and (state := getattr(signal, "state", None)):
                    self.flow_run.state = state
                raise
            except (asyncio.CancelledError, SystemExit, KeyboardInterrupt) as ended:
                await self._record_end(ended)
                raise
            finally:
                if self.flow_run is not None:
                    self.logger.info("Finished in state %s", self.state)
                self._client, self._is_started = None, False

    async def _begin_span(self, flow_run: FlowRun) -> None:
        """Begin the flow run's span. Only who records spans has Prefect asked to write down where they belong."""
        with suppress(httpx.HTTPError):  # no run ends for want of a trace
            await self._telemetry.async_start_span(run=flow_run, client=self.client, parameters=self.parameters)

    async def _record_end(self, ended: BaseException) -> None:
        """The run was torn off, or tried to end the process.

        Who tears it off does not wait for an outage: a worker that is told to end has to be gone in time.
        """
        if self.flow_run is None or self.state.is_final():
            return
        if isinstance(ended, asyncio.CancelledError):
            with move_on_after(RUN_RECORDED_SECONDS, shield=True):
                await self.set_state(self.torn_off(), force=True)
        else:
            with CancelScope(shield=True):
                await self.set_state(Crashed(message=f"The flow raised {ended!r}."), force=True)

    @contextmanager
    def setup_flow_run_suspension_request(self) -> Generator[FlowRunSuspensionRequest, None, None]:
        """Nobody suspends our runs from outside: no websocket watches for it."""
        assert self.flow_run is not None  # noqa: S101 - given or created at the start
        request = self._get_flow_run_suspension_request()
        with register_flow_run_suspension_request(self.flow_run.id, request):
            yield request


async def show_inner_run(client: PrefectClient, name: str, key: str) -> UUID:
    """The task run that stands for another flow run inside the one around it, whose states Prefect gives it.

    Asked twice with one key, it is the same one.
    """
    around = FlowRunContext.get()
    assert around is not None  # noqa: S101 - it is inside another one
    assert around.flow_run is not None  # noqa: S101 - a flow that runs has a flow run
    stands_for = Task(fn=_nothing, name=name, persist_result=False)
    made = await client.create_task_run(
        task=stands_for, flow_run_id=around.flow_run.id, dynamic_key=key, name=name, state=Pending()
    )
    return made.id


async def _nothing() -> None:
    """Stand in for the work of another flow run."""


@dataclass
class _InnerEngine(QuietEngine):
    """A flow run inside another one, whose client, result store and process it uses."""

    name: str | None = None

    async def create_flow_run(self, client: PrefectClient) -> FlowRun:
        """Always a new one: what an earlier one had done is remembered by us, not by Prefect."""
        around = FlowRunContext.get()
        tracking = Task(fn=self.flow.fn, name=self.flow.name, version=self.flow.version)
        vars(tracking)["_is_subflow_tracking_task"] = True
        # Made twice where an answer was lost on its way: the second of them is the one that is used.
        shown = await ask_until_answered(
            lambda: tracking.create_run(client=client, flow_run_context=around, parameters={}), self.flow.name
        )
        created = await ask_until_answered(
            lambda: client.create_flow_run(self.flow, name=self.name, state=Pending(), parent_task_run_id=shown.id),
            self.flow.name,
        )
        self.logger = cast("logging.Logger", flow_run_logger(created, self.flow))
        return created

    @asynccontextmanager
    async def setup_run_context(self, client: PrefectClient | None = None) -> AsyncGenerator[None, None]:
        around = FlowRunContext.get()
        assert around is not None  # noqa: S101 - it is inside another one
        with FlowRunContext(
            flow=self.flow,
            flow_run=self.flow_run,
            parameters=self.parameters or {},
            client=client or self.client,
            result_store=around.result_store,
            task_runner=self.flow.task_runner,  # not begun: our tasks run in the event loop
            persist_result=False,
            flow_run_suspension_request=self._get_flow_run_suspension_request(),
        ):
            yield


async def run_as_inner_flow_run(
    body: Callable[[], Coroutine[Any, Any, State[Any]]], flow_name: str, version: str, run_name: str
) -> None:
    """Run this as a flow run inside the one around it; it ends in the state that the body returns.

    Raises what the body raised.
    """
    flow: Flow[..., Any] = Flow(
        fn=body, name=flow_name, version=version, validate_parameters=False, persist_result=False, log_prints=False
    )
    engine = _InnerEngine(flow=flow, parameters={}, name=run_name)
    await engine.run_flow()
    if isinstance(engine._raised, BaseException):  # noqa: SLF001 - ours by inheritance
        raise engine._raised  # noqa: SLF001
