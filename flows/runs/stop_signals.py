"""How a flow run hears that it should stop, from its worker, from a signal, or from Prefect."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import State as PrefectState
from prefect.client.schemas.objects import StateType
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.runtime import flow_run

from flows.runs.stopping import Stop, process_is_shared, stoppable_by_id

WHY_SECONDS = 1.0  # for Prefect to say whether a signal was meant for the run or for its worker


@contextmanager
def heeding_stop_signals(stop: Stop) -> Iterator[None]:
    """Let this flow run be stopped by its worker, a signal or Prefect while the block runs."""
    with stoppable_by_id(flow_run_id(), stop), _heeding_sigterm(stop):
        yield


@contextmanager
def _heeding_sigterm(stop: Stop) -> Iterator[None]:
    """Take SIGTERM as a request to leave soon. Prefect's own answer, an exception anywhere, would lose checkpoints.

    It comes for a cancellation in Prefect's UI too, which leaves handlers less time than a worker that drains.
    """
    if process_is_shared() or threading.current_thread() is not threading.main_thread():
        yield
        return
    before, loop = signal.getsignal(signal.SIGTERM), asyncio.get_running_loop()
    asking: set[asyncio.Task[None]] = set()
    loop.add_signal_handler(signal.SIGTERM, lambda: asking.add(loop.create_task(_stop_as_signalled(stop))))
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        for task in asking:
            task.cancel()
        signal.signal(signal.SIGTERM, before)


async def _stop_as_signalled(stop: Stop) -> None:
    cancelled = False
    with suppress(TimeoutError):
        async with asyncio.timeout(WHY_SECONDS), get_client(sync_client=False) as prefect:
            cancelled = await is_being_cancelled(prefect)
    stop.set("cancelled" if cancelled else "draining")


async def is_being_cancelled(prefect: PrefectClient) -> bool:
    """Whether the signal that reached us was meant for this run, not for its worker.

    Where Prefect does not say so at once it was not: who is to leave has no time for an outage.
    """
    try:
        async with asyncio.timeout(WHY_SECONDS):
            state = (await prefect.read_flow_run(flow_run_id())).state
    except (httpx.HTTPError, PrefectHTTPStatusError, ObjectNotFound, TimeoutError):
        return False
    return state is not None and state.type in {StateType.CANCELLING, StateType.CANCELLED}


async def state_after_early_leave(stop: Stop, drained: PrefectState[Any]) -> PrefectState[Any]:
    """The final state of a flow run that was told to stop and tells the domain nothing: a child, or one not begun."""
    if stop.reason == "draining":
        async with get_client(sync_client=False) as prefect:
            if not await is_being_cancelled(prefect):
                return drained
    return cancelled_state("Fenced" if stop.reason == "fenced" else "Cancelled", "The run was told to stop.")


def cancelled_state(name: str, message: str) -> PrefectState[Any]:
    return PrefectState(type=StateType.CANCELLED, name=name, message=message)


def flow_run_id() -> UUID:
    """This flow run's id."""
    return UUID(str(flow_run.id))
