"""Task runs by our engine (`flows.prefect_engine.task_run`) against the Prefect server that the environment names.

Prints what came of them. A process of its own: Prefect's clients leave connections to the garbage collector.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from prefect import Flow, Task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.client.schemas.objects import State, StateType
from prefect.runtime import flow_run, task_run
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.prefect_engine import tag_limits as tag_limits_module
from flows.prefect_engine import task_run_events
from flows.prefect_engine.tag_limits import TagLimits, tag_limits
from flows.prefect_engine.task_run import run_task

TAG = "raster.create_cog"
AT_ONCE = 6
DONE = State(type=StateType.COMPLETED, name="Completed")
Work = Callable[[], Awaitable[None]]
stock_ask = PrefectClient.increment_concurrency_slots_with_lease


def task(body: Callable[..., Awaitable[State[Any]]], **settings: Any) -> Task[..., Any]:
    return Task(fn=body, name="node", tags=[TAG], cache_policy=NO_CACHE, persist_result=False, **settings)


async def in_a_flow(work: Work) -> str:
    """Do this in a flow run, as an attempt does; the flow run's id."""
    ids: list[str] = []

    async def body() -> State[Any]:
        ids.append(str(flow_run.id))
        await learn(tag_limits)
        await work()
        return DONE

    await Flow(fn=body, name="flow", persist_result=False)(return_state=True)
    return ids[0]


async def learn(limits: TagLimits) -> None:
    limits.known_until = 0.0
    async with get_client(sync_client=False) as client:
        await limits.learn(client)


@asynccontextmanager
async def limit_of_one() -> AsyncIterator[None]:
    async with get_client(sync_client=False) as client:
        await client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=f"tag:{TAG}", limit=1))
        try:
            yield
        finally:
            await client.delete_global_concurrency_limit_by_name(f"tag:{TAG}")


async def most_at_once() -> tuple[int, int]:
    """Of tasks that are begun together, how many are at work at once, and how often the server was asked for a slot."""
    asked: list[object] = []
    peaks: list[int] = []

    async def asking(client: Any, **wanted: Any) -> Any:
        asked.append(wanted)
        return await stock_ask(client, **wanted)

    async def work() -> None:
        peaks.append(await peak())

    PrefectClient.increment_concurrency_slots_with_lease = asking  # type: ignore[method-assign, assignment]
    await in_a_flow(work)
    return max(peaks), len(asked)


async def peak() -> int:
    """Of tasks that are begun together, how many are at work at once."""
    at_work: set[int] = set()
    peaks: list[int] = []

    async def body(number: int) -> State[Any]:
        at_work.add(number)
        peaks.append(len(at_work))
        await asyncio.sleep(0.1)
        at_work.discard(number)
        return State(type=StateType.COMPLETED, name="Completed")

    await asyncio.gather(*(run_task(task(body), number=number) for number in range(AT_ONCE)))
    return max(peaks)


async def limited_meanwhile() -> list[int]:
    """How many are at work at once before there is a limit, and a moment after one was made, in one flow run."""
    peaks = []

    async def work() -> None:
        peaks.append(await peak())
        async with limit_of_one():
            await asyncio.sleep(tag_limits_module.KNOWN_SECONDS)
            await peak()  # what begins has it looked up
            await asyncio.sleep(1)
            peaks.append(await peak())

    tag_limits_module.KNOWN_SECONDS = 0.5
    await in_a_flow(work)
    return peaks


async def known_without_an_answer() -> bool:
    """Whether a limit is still known once the server cannot be asked."""
    limits = TagLimits()
    async with limit_of_one():
        await learn(limits)
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        await learn(limits)
    return bool(limits.among([TAG, "gdal"])) and not limits.among(["gdal"])


async def tries() -> tuple[list[int], list[str | None]]:
    """The numbers of the tries of what fails twice, and what is told of it and of what always fails."""
    counts: list[int] = []

    async def fails_twice() -> State[Any]:
        counts.append(task_run.run_count or 0)
        if len(counts) < 3:
            raise RuntimeError("not yet")
        return DONE

    async def fails() -> State[Any]:
        raise RuntimeError("never")

    told: list[str | None] = []

    async def work() -> None:
        for body in (fails_twice, fails):
            error = await run_task(task(body, retries=2, retry_delay_seconds=0.01))
            told.append(str(error) if error else None)

    await in_a_flow(work)
    return counts, told


async def ended() -> str:
    """The flow run of one task run that ended well and one that did not."""

    async def ends(kind: str, name: str) -> State[Any]:
        return State(type=StateType(kind), name=name, message="told")

    async def work() -> None:
        named = task(ends, task_run_name="node {name}")
        await run_task(named, kind="COMPLETED", name="Cached")
        await run_task(named, kind="FAILED", name="Failed")

    return await in_a_flow(work)


async def slow() -> str:
    """The flow run of one task run that takes longer than a moment."""
    task_run_events.QUICK_SECONDS = 0.05  # type: ignore[misc]

    async def takes_its_time() -> State[Any]:
        await asyncio.sleep(0.3)
        return State(type=StateType.COMPLETED, name="Completed")  # one of its own: events go by its id

    async def work() -> None:
        await run_task(task(takes_its_time))

    return await in_a_flow(work)


async def main() -> dict[str, Any]:
    async with limit_of_one():
        limited = await most_at_once()
    return {
        "limited": limited,
        "unlimited": await most_at_once(),
        "limited_meanwhile": await limited_meanwhile(),
        "known_without_an_answer": await known_without_an_answer(),
        "tries": await tries(),
        "ended": await ended(),
        "slow": await slow(),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))  # noqa: T201
