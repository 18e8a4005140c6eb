"""Flows that behave and misbehave inside a worker's process."""

import asyncio
import logging
import os
import signal
import threading
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect import flow, get_run_logger, task
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled, Cancelling, Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner

from flows.handlers.context import LOGGER
from flows.prefect_engine.flow_run import run_as_inner_flow_run
from flows.runs.claim import connect_to_domain
from flows.runs.operators_run import register_flow_run
from flows.runs.stopping import Stop, stoppable_by_id

LEAVING = "leaving as told"


@task
def double(number: int) -> int:
    return 2 * number


@flow(task_runner=ThreadPoolTaskRunner(max_workers=2))  # type: ignore[arg-type]
async def quick(number: int = 1) -> int:
    """Does a little, and says who it is."""
    get_run_logger().info("line of %s, run count %s", number, flow_run.run_count)
    return double.submit(number).result()


@flow
async def raises() -> None:
    raise ValueError("on purpose")


@flow
async def leaves_the_interpreter() -> None:
    raise SystemExit(3)


@flow
async def waits(seconds: float = 600.0, path: str | None = None, begun: str | None = None) -> Any:
    """Waits so long or until there is such a file, and leaves when it is told to stop. Makes a file as it begins."""
    stop = Stop()
    if begun:
        Path(begun).touch()  # noqa: ASYNC240 - in a moment
    if await waited(stop, seconds, path):
        return "done"
    return Failed(name="Stopped", message=f"told to stop: {stop.reason}")


@flow
async def holds_another(seconds: float = 600.0) -> Any:
    """Has another flow run inside itself, as a run with a sub-workflow; that one waits and leaves when told to."""
    stop = Stop()

    async def body() -> State[Any]:
        get_run_logger().info("line of the inner run")
        return Completed() if await waited(stop, seconds) else Cancelled(name="HandedOver")

    await run_as_inner_flow_run(body, "inner", "1", "inside")
    return Failed(name="Stopped", message=f"told to stop: {stop.reason}") if stop.is_set() else "done"


@flow
async def heeds_sigterm(path: str, seconds: float = 600.0) -> Any:
    """Waits in a process of its own, and leaves in a moment when that is told to end, as our runs do.

    Once it would hear of that, there is such a file.
    """
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    Path(path).touch()  # noqa: ASYNC240 - in a moment
    try:
        await asyncio.wait_for(told.wait(), seconds)
        await asyncio.sleep(1)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
    return Cancelled(name="HandedOver")


@flow
async def says_as_handlers_do() -> None:
    """Begins as every flow of ours does, and has a handler log a line; another library logs one as well."""
    async with AsyncExitStack() as stack:
        await connect_to_domain(stack)
        logging.getLogger(LOGGER).info("a line of a handler")
        logging.getLogger("library").warning("a line of a library")


@flow
async def registers(path: str) -> Any:
    """Has the domain, which refuses it and makes a file, open a run, as a Quick Run does."""

    async def answer(_: httpx.Request) -> httpx.Response:
        Path(path).touch()  # noqa: ASYNC240 - in a moment
        return httpx.Response(422, json={"detail": "no"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://domain") as http:
        return await register_flow_run(http, "echo_test", {})


@flow
async def says_where() -> None:
    """Says in which process it runs."""
    get_run_logger().info("process %d", os.getpid())


@flow
async def kills_its_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def waited(stop: Stop, seconds: float, path: str | None = None) -> bool:
    """Whether the time has passed or the file is there; False where the flow was told to stop before."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    stop.on_set(lambda: loop.call_soon_threadsafe(told.set))
    until = loop.time() + seconds
    with stoppable_by_id(UUID(flow_run.id), stop):
        while loop.time() < until and not (path and Path(path).exists()):  # noqa: ASYNC240 - in a moment
            with suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), 0.05)
                get_run_logger().info(LEAVING)
                return False
    return True


@flow
async def cancelled_meanwhile() -> str:
    """Is done at the moment in which somebody has it cancelled, before its worker has looked."""
    async with get_client(sync_client=False) as prefect:
        await prefect.set_flow_run_state(UUID(flow_run.id), Cancelling())
    return "done"


@flow
async def ignores() -> None:
    """Never looks whether it is to stop."""
    await asyncio.sleep(600)


@task
def sleep_in_thread(seconds: float) -> None:
    time.sleep(seconds)


@flow(task_runner=ThreadPoolTaskRunner(max_workers=1))  # type: ignore[arg-type]
async def overstays(seconds: float = 40.0) -> None:
    """Its handler does not end when its run does."""
    future = sleep_in_thread.submit(seconds)
    await asyncio.to_thread(threading.Event().wait, 0.2)
    await asyncio.wrap_future(future.wrapped_future)  # type: ignore[attr-defined]


NO_FLOW = "not a flow"
