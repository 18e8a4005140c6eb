"""Flow runs as the domain makes them, on a real Prefect server: queue, name and tags arrive as meant."""

from collections.abc import AsyncIterator

import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from domain.adapters.prefect_runs import PrefectRuns
from domain.relay import flow_run_name, flow_run_tags
from tests.domain.test_flow_run_names import HOSTILE, dispatch
from tests.support.prefect_server import PrefectServer


@pytest.fixture
async def runs(prefect_server: PrefectServer) -> AsyncIterator[PrefectRuns]:
    assert prefect_server.run_module("deployments.cli", "deploy").returncode == 0
    with temporary_settings({PREFECT_API_URL: prefect_server.api}):
        async with PrefectRuns() as prefect:
            yield prefect


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
async def test_a_run_waits_in_the_queue_of_its_priority(runs: PrefectRuns, priority: str) -> None:
    one = dispatch(priority=priority, label=HOSTILE[2])
    made = await runs.create(
        "echo_test/echo_test",
        key=f"queue-{priority}",
        name=flow_run_name(one),
        parameters={"run_id": str(one.run_id), "attempt_token": one.token},
        tags=flow_run_tags(one),
        queue=one.priority,
    )
    async with get_client(sync_client=False) as client:
        found = await client.read_flow_run(made)
    assert (found.work_pool_name, found.work_queue_name) == ("light", priority)
    assert found.name == "ddh 01234567 _prefect.blocks.secret.cairn-worker-toke r3 #1"
    assert set(found.tags) == {"cairn", "pool:light", *flow_run_tags(one)}


async def test_prefect_tells_of_workers_that_send_no_beacon(runs: PrefectRuns, prefect_server: PrefectServer) -> None:
    assert await runs.online_workers("light") == frozenset()
    with prefect_server.worker("light"):
        assert await runs.online_workers("light") == frozenset({"light-1"})
    assert await runs.online_workers("no-such-pool") == frozenset()


async def test_a_prefect_that_is_away_tells_nothing_of_workers() -> None:
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        async with PrefectRuns() as prefect:
            assert await prefect.online_workers("light") is None
