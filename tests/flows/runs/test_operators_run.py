"""A flow run that an operator began, before the domain has made a run of it."""

import asyncio
from uuid import uuid4

import httpx
import pytest

from flows.runs import operators_run, stop_signals
from flows.runs.domain_client import AttemptClient
from flows.runs.operators_run import register_flow_run
from flows.runs.stopping import stop_flow_run
from tests.support.clock import eventually

FLOW_RUN, RUN = uuid4(), uuid4()
CANCELLED_SECONDS = 10.0  # asked without a stop, the domain would be asked for an hour


@pytest.fixture(autouse=True)
def flow_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (operators_run, stop_signals):
        monkeypatch.setattr(module, "flow_run_id", lambda: FLOW_RUN)

    async def was_not() -> bool:
        return False

    monkeypatch.setattr(operators_run, "was_cancelled", was_not)  # as Prefect says: `test_stock_workers`


def answering(status: int, body: object, seconds: float = 0) -> httpx.AsyncClient:
    async def answer(_: httpx.Request) -> httpx.Response:
        await asyncio.sleep(seconds)
        return httpx.Response(status, json=body)

    return httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://domain")


async def test_registered_flow_run_gets_a_line_that_can_be_stopped() -> None:
    async with answering(200, {"run_id": str(RUN), "attempt_token": "t"}) as http:
        line = await register_flow_run(http, "echo_test", {})
    assert isinstance(line, AttemptClient)
    assert (line.run_id, line.token, line.stop.is_set()) == (RUN, "t", False)


async def test_flow_run_whose_inputs_are_refused_ends_failed_with_the_sentence() -> None:
    async with answering(422, {"detail": "source: is required: text"}) as http:
        state = await register_flow_run(http, "raster_ingest", {})
    assert not isinstance(state, AttemptClient)
    assert state.is_failed()
    assert "source: is required: text" in (state.message or "")


@pytest.mark.parametrize("seconds", [0, 600], ids=["refusing", "silent"])
async def test_flow_run_cancelled_while_the_domain_is_away_is_over_soon(seconds: float) -> None:
    async with answering(503, {"detail": "away"}, seconds) as http:
        asked = asyncio.create_task(register_flow_run(http, "echo_test", {}))
        await eventually(lambda: stop_flow_run(FLOW_RUN, "cancelled"))
        state = await asyncio.wait_for(asked, CANCELLED_SECONDS)
    assert not isinstance(state, AttemptClient)
    assert (state.is_cancelled(), state.name) == (True, "Cancelled")
