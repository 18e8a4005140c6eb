"""Flow runs as the domain makes them, on a real Prefect server: queue, name and tags arrive as meant."""

from collections.abc import AsyncIterator

import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Pending

from deployments.stack.health import held_in_prefect
from domain.adapters.prefect_runs import NewFlowRun, PrefectRuns
from domain.loops.relay import flow_run_name, flow_run_tags
from domain.repositories.outbox import Dispatch
from domain.rules.holds import NO_ROOM, PAUSED
from flows.pools import SEGMENT_FLOW
from tests.domain.test_flow_run_names import HOSTILE, dispatch
from tests.support.prefect_server import PrefectServer

CHILD = {"run_id": "0194d4c0-0000-7000-8000-000000000000", "segment": 1}


@pytest.fixture(scope="module")
def deployed(prefect_server: PrefectServer) -> PrefectServer:
    assert prefect_server.cairn("deploy").returncode == 0
    return prefect_server


@pytest.fixture
async def runs(deployed: PrefectServer) -> AsyncIterator[PrefectRuns]:
    with temporary_settings({PREFECT_API_URL: deployed.api}):
        async with PrefectRuns() as prefect:
            yield prefect


def wanted(one: Dispatch, key: str) -> NewFlowRun:
    parameters = {"run_id": str(one.run_id), "attempt_token": one.token}
    return NewFlowRun(key, flow_run_name(one), parameters, flow_run_tags(one), one.priority)


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
async def test_flow_run_is_created_in_the_queue_of_its_priority(runs: PrefectRuns, priority: str) -> None:
    one = dispatch(priority=priority, label=HOSTILE[2])
    made = await runs.create("echo_test/echo_test", wanted(one, f"queue-{priority}"))
    async with get_client(sync_client=False) as client:
        found = await client.read_flow_run(made)
    assert (found.work_pool_name, found.work_queue_name) == ("light", priority)
    assert found.name == "ddh 01234567 _prefect.blocks.secret.cairn-worker-toke r3 #1"
    assert set(found.tags) == {"cairn", "pool:light", *flow_run_tags(one)}


async def test_flow_runs_made_together_are_as_those_made_alone_and_each_key_is_one(runs: PrefectRuns) -> None:
    orders = [wanted(dispatch(priority=name), f"together-{name}") for name in ("high", "low", "normal")]
    first = await runs.create("echo_test/echo_test", orders[0])
    made = await runs.create_together("echo_test/echo_test", orders)
    assert made is not None
    assert (made[0], len(set(made))) == (first, 3)
    assert await runs.create_together("echo_test/echo_test", orders) == made
    async with get_client(sync_client=False) as client:
        alone, low, _ = [await client.read_flow_run(one) for one in made]
    assert (low.work_pool_name, low.work_queue_name, low.idempotency_key) == ("light", "low", "together-low")
    kept = ("flow_id", "deployment_id", "parameters", "name", "state_type", "state_name")
    assert [getattr(low, name) for name in kept] == [getattr(alone, name) for name in kept]
    assert set(low.tags) == {"cairn", "pool:light", *orders[1].tags}


async def test_flow_runs_of_no_deployment_are_not_made_together(runs: PrefectRuns) -> None:
    assert await runs.create_together("echo_test/no-such", [wanted(dispatch(), key) for key in "ab"]) is None


async def test_online_workers_are_known_from_prefect(runs: PrefectRuns, deployed: PrefectServer) -> None:
    assert await runs.online_workers("light") == frozenset()
    with deployed.worker("light"):
        assert await runs.online_workers("light") == frozenset({"light-1"})
    assert await runs.online_workers("no-such-pool") == frozenset()


async def test_online_workers_are_unknown_while_prefect_is_away() -> None:
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        async with PrefectRuns() as prefect:
            assert await prefect.online_workers("light") is None


async def test_pools_and_queues_that_an_operator_holds_are_known_from_prefect(
    runs: PrefectRuns, deployed: PrefectServer
) -> None:
    assert await runs.held_places() == {}
    for path, change, held in (
        ("/work_pools/gdal", {"is_paused": True}, {"gdal": PAUSED}),
        ("/work_pools/gdal", {"is_paused": False, "concurrency_limit": 0}, {"gdal": NO_ROOM}),
        ("/work_pools/gdal", {"concurrency_limit": None}, {}),
        ("/work_pools/light/queues/low", {"is_paused": True}, {"light/low": PAUSED}),
        ("/work_pools/light/queues/low", {"is_paused": False}, {}),
    ):
        deployed.http.patch(path, json=change).raise_for_status()
        assert await runs.held_places() == held
        assert await held_in_prefect(deployed.api, basic="nobody:asks") == held  # as `cairn status` and the doctor ask


async def test_held_places_are_unknown_while_prefect_is_away() -> None:
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        async with PrefectRuns() as prefect:
            assert await prefect.held_places() is None
    assert await held_in_prefect("http://127.0.0.1:9/api", basic="nobody:asks") == {}


async def test_child_runs_that_a_worker_took_up_are_found_with_their_attempts_token_and_ended(
    runs: PrefectRuns,
) -> None:
    async with get_client(sync_client=False) as client:
        segment = await client.read_deployment_by_name(f"{SEGMENT_FLOW}/gdal")
        taken, queued = [
            (await client.create_flow_run_from_deployment(segment.id, parameters={**CHILD, "attempt_token": token})).id
            for token in ("taken", "queued")
        ]
        await client.set_flow_run_state(taken, Pending())
        assert await runs.children_under_way() == {taken: "taken"}
        await runs.end_child(taken)
        assert await runs.children_under_way() == {}
        ended = (await client.read_flow_run(taken)).state
        assert (ended and ended.name, ended and ended.message) == (
            "Crashed",
            "Its attempt is over, and it never began.",
        )
        await client.delete_flow_run(queued)
