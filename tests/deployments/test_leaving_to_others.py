"""Which child runs a worker of ours leaves to others: those of a fan-out on which it works already, for a while."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from deployments.workers.draining import LEFT_SECONDS, Draining
from flows.pools import SHARED
from flows.runs.child_flow_runs.workers import ServingWorkers

RUN, OTHER = str(UUID(int=1)), str(UUID(int=2))


def child(run_id: str = RUN, *, age_seconds: float = 1.0, shared: bool = True) -> Any:
    """What Prefect says of a child run that waits."""
    created = datetime.now(UTC) - timedelta(seconds=age_seconds)
    tags = [f"{SHARED}{run_id}"] if shared else []
    return SimpleNamespace(
        flow_run=SimpleNamespace(id=uuid4(), parameters={"run_id": run_id}, tags=tags, created=created)
    )


def left(in_hand: list[str], *found: Any) -> list[bool]:
    """Which of these the worker leaves that has work of these runs in hand."""
    worker: Any = SimpleNamespace(_in_hand={uuid4(): run_id for run_id in in_hand})
    return [Draining._leaves_to_others(worker, one.flow_run, list(found)) for one in found]


def test_second_child_run_of_a_fan_out_is_left_to_others() -> None:
    assert left([], child(), child()) == [False, True]
    assert left([RUN], child()) == [True]
    assert left([OTHER], child()) == [False]


def test_child_run_that_nobody_else_took_is_taken_after_a_while() -> None:
    assert left([RUN], child(age_seconds=LEFT_SECONDS + 1)) == [False]


def test_child_run_that_shares_nothing_is_never_left() -> None:
    assert left([RUN], child(shared=False), child(OTHER)) == [False, False]


@pytest.mark.parametrize(("kind", "serving"), [("process", 3), ("cairn-inline", 3), ("kubernetes", 4)])
async def test_fan_out_counts_workers_or_containers(kind: str, serving: int) -> None:
    prefect: Any = SimpleNamespace(asked=0)

    async def read_work_pool(_name: str) -> Any:
        prefect.asked += 1
        return SimpleNamespace(type=kind)

    async def read_workers_for_work_pool(_name: str, **_named: Any) -> list[Any]:
        return [SimpleNamespace()] * 3

    prefect.read_work_pool, prefect.read_workers_for_work_pool = read_work_pool, read_workers_for_work_pool
    workers = ServingWorkers()
    assert [await workers.serving(prefect, "gdal", 4) for _ in range(3)] == [serving] * 3
    assert prefect.asked == 1, "one question for all runs of ten seconds"


async def test_one_worker_is_counted_where_prefect_does_not_answer() -> None:
    async def read_work_pool(_name: str) -> Any:
        raise TimeoutError

    prefect: Any = SimpleNamespace(read_work_pool=read_work_pool)
    assert await ServingWorkers().serving(prefect, "gdal", 4) == 1
