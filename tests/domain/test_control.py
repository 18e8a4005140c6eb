"""Orders of operators: cancel, pause, resume, rerun, priorities and limits, while work goes on."""

import asyncio
from hashlib import sha256
from typing import Any
from uuid import uuid4

import httpx
import pytest

from domain.repositories import outbox
from tests.support.acts import Flow, approved, call, decide, dispatched, processed, started, submit
from tests.support.platform import Domain

WHY = {"reason": "because"}
SLOPE = {"dataset_id": "elevation", "resource_id": "slope"}


async def order(
    domain: Domain, path: str, body: Any = WHY, by: str = "operator", method: str = "POST"
) -> httpx.Response:
    return await call(domain, by, method, path, body)


async def request_id(domain: Domain, **changes: Any) -> str:
    answer = await submit(domain, **changes)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["request_id"])


async def test_waiting_request_is_cancelled_at_once(domain: Domain) -> None:
    waiting = await request_id(domain)
    answer = await order(domain, f"/requests/{waiting}/cancel")
    assert answer.json() == {"request_id": waiting, "status": "cancelled", "priority": "normal"}
    assert await dispatched(domain) == []
    assert domain.rows("select processing from app.revisions") == [("cancelled",)]
    assert (await order(domain, f"/requests/{waiting}/cancel")).json()["status"] == "cancelled"
    assert domain.rows("select action, details->>'reason' from app.audit") == [("cancel", "because")]


async def test_running_attempt_is_fenced_and_told_to_stop_when_cancelled(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    assert (await flow.beat()).json() == {"stop": False}
    assert (await order(domain, f"/runs/{flow.run_id}/cancel")).json()["status"] == "cancelled"
    assert (await flow.beat()).json() == {"stop": True}
    assert (await flow.commit()).status_code == 409
    assert domain.rows("select state from app.runs") == [("cancelled",)]


async def test_one_of_a_racing_cancellation_and_commit_wins(domain: Domain) -> None:
    for round_number in range(5):
        asked = await request_id(domain, refs=SLOPE | {"resource_id": str(round_number)})
        flow = await started(domain)
        cancelled, committed = await asyncio.gather(order(domain, f"/requests/{asked}/cancel"), flow.commit())
        assert {cancelled.status_code, committed.status_code} == {200, 409}
        [(status,)] = domain.rows("select status from app.requests where request_id = %s", asked)
        assert status == ("cancelled" if cancelled.is_success else "completed")


async def test_cancelling_an_ended_request_is_refused(domain: Domain) -> None:
    await processed(domain)
    [(finished,)] = domain.rows("select request_id from app.requests")
    answer = await order(domain, f"/requests/{finished}/cancel")
    assert (answer.status_code, answer.json()["code"]) == (409, "already-finished")
    assert (await order(domain, f"/requests/{uuid4()}/cancel")).status_code == 404


async def test_the_gateway_cancels_for_the_requests_own_platform(domain: Domain) -> None:
    waiting = await request_id(domain)
    for client_id, status in ((None, 404), ("arcgis-dev", 404), ("ddh-dev", 200)):
        answer = await order(domain, f"/requests/{waiting}/cancel", WHY | {"client_id": client_id}, by="gateway")
        assert answer.status_code == status


@pytest.mark.parametrize("about", [{}, {"workflow_id": "raster_ingest"}, {"platform_id": "ddh"}])
async def test_a_pause_holds_dispatch_and_a_resume_loses_nothing(domain: Domain, about: dict[str, str]) -> None:
    await order(domain, "/pause", WHY | about)
    await submit(domain)
    assert await dispatched(domain) == []
    [held] = (await order(domain, "/settings", None, method="GET")).json()
    assert (held["kind"], held["value"], held["updated_by"]) == ("pause", "because", "operator")
    assert (await order(domain, "/resume", about)).status_code == 204
    assert len(await dispatched(domain)) == 1
    assert (await order(domain, "/resume", about)).status_code == 404


@pytest.mark.parametrize("about", [{"workflow_id": "echo_test"}, {"platform_id": "arcgis"}])
async def test_a_pause_of_something_else_holds_nothing(domain: Domain, about: dict[str, str]) -> None:
    await order(domain, "/pause", WHY | about)
    await submit(domain)
    assert len(await dispatched(domain)) == 1


async def test_a_start_is_held_without_using_up_a_try(domain: Domain) -> None:
    await submit(domain)
    [flow] = await dispatched(domain)
    await order(domain, "/pause")
    held = await flow.start()
    assert (held.status_code, held.json()["code"], held.headers["Retry-After"]) == (503, "paused", "5")
    assert domain.rows("select number, state, flow_run_id from app.attempts") == [(1, "sending", None)]
    await order(domain, "/resume", {})
    assert (await flow.start()).status_code == 200


async def test_started_run_goes_on_under_a_pause_but_its_next_child_waits(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    await order(domain, "/pause")
    assert (await flow.beat()).json() == {"stop": False, "paused": True}
    assert (await flow.start()).status_code == 200, "the answer may have been lost"
    assert (await Flow(domain, flow.run_id, flow.token).start(segment=1)).status_code == 503
    assert (await flow.commit()).status_code == 200


async def test_pause_of_several_subjects_is_refused(domain: Domain) -> None:
    both = {"workflow_id": "raster_ingest", "platform_id": "ddh"}
    assert (await order(domain, "/pause", WHY | both)).status_code == 422


async def test_higher_priorities_are_dispatched_first(domain: Domain) -> None:
    domain.rows("update app.platforms set priority_cap = 'high' returning 1")
    for number, priority in enumerate(["low", "normal", "high", "low"]):
        await submit(domain, priority=priority, refs=SLOPE | {"resource_id": str(number)})
    last = domain.rows("select request_id from app.requests order by created_at desc limit 1")[0][0]
    assert (await order(domain, f"/requests/{last}/priority", {"priority": "high"})).json()["priority"] == "high"
    claims = [await outbox.claim(domain.service.database, 1) for _ in range(4)]
    assert [claim[0].priority for claim in claims] == ["high", "high", "normal", "low"]


async def test_pool_is_sent_no_more_than_its_limit(domain: Domain) -> None:
    for number in range(5):
        await submit(domain, refs=SLOPE | {"resource_id": str(number)})
    await order(domain, "/limits", {"kind": "in_flight", "name": "light", "value": 2}, method="PUT")
    flows = await dispatched(domain)
    assert len(flows) == 2
    assert await dispatched(domain) == []
    await flows[0].start()
    await flows[0].commit()
    assert len(await dispatched(domain)) == 1
    await order(domain, "/limits", {"kind": "in_flight", "name": "light", "value": None}, method="PUT")
    assert len(await dispatched(domain)) == 2


ARCGIS = {"platform_id": "arcgis", "client_id": "arcgis-dev"}


@pytest.mark.parametrize(("of", "name"), [("workflow", "raster_ingest"), ("platform", "ddh")])
async def test_workflow_and_platform_are_sent_no_more_than_their_limits(domain: Domain, of: str, name: str) -> None:
    limit = {"kind": "in_flight", "of": of, "name": name}
    for number in range(5):
        await submit(domain, refs=SLOPE | {"resource_id": str(number)})
    await order(domain, "/limits", limit | {"value": 2}, method="PUT")
    assert [setting["value"] for setting in (await order(domain, "/settings", method="GET")).json()] == [2]
    flows = await dispatched(domain)
    assert len(flows) == 2, "not even within one claim"
    assert await dispatched(domain) == []
    await order(domain, "/runs", {"workflow_id": "echo_test"})
    assert len(await dispatched(domain)) == 1, "others are not held"
    await flows[0].start()
    assert await dispatched(domain) == []
    await flows[0].commit()
    assert len(await dispatched(domain)) == 1
    await order(domain, "/limits", limit | {"value": None}, method="PUT")
    assert len(await dispatched(domain)) == 2


async def test_workflow_limit_and_platform_limit_hold_together(domain: Domain) -> None:
    for number in range(3):
        await submit(domain, refs=SLOPE | {"resource_id": str(number)})
        await submit(domain, **ARCGIS, refs={"item_id": str(number), "layer_index": "0"})
    for of, name, value in (("workflow", "raster_ingest", 3), ("platform", "ddh", 1), ("platform", "arcgis", 0)):
        body = {"kind": "in_flight", "of": of, "name": name, "value": value}
        assert (await order(domain, "/limits", body, method="PUT")).status_code == 204
    assert len(await dispatched(domain)) == 1
    await order(domain, "/limits", {"kind": "in_flight", "of": "platform", "name": "arcgis", "value": 9}, method="PUT")
    assert len(await dispatched(domain)) == 2
    assert await dispatched(domain) == []


async def test_limit_on_an_impossible_subject_is_refused(domain: Domain) -> None:
    of_pool = {"kind": "open_requests", "of": "pool", "name": "light", "value": 1}
    assert (await order(domain, "/limits", of_pool, method="PUT")).status_code == 422
    nowhere = {"kind": "in_flight", "of": "workflow", "name": "nowhere", "value": 1}
    assert (await order(domain, "/limits", nowhere, method="PUT")).status_code == 422


async def test_relays_that_claim_at_once_share_the_work(domain: Domain) -> None:
    for number in range(12):
        await submit(domain, refs=SLOPE | {"resource_id": str(number)})
    claims = await asyncio.gather(*(outbox.claim(domain.service.database, 5) for _ in range(4)))
    claimed = [dispatch.run_id for claim in claims for dispatch in claim]
    assert len(claimed) == len(set(claimed)) == 12


async def test_a_platform_over_its_quota_is_told_when_to_come_back(domain: Domain) -> None:
    await order(domain, "/limits", {"kind": "open_requests", "name": "ddh", "value": 1}, method="PUT")
    first = await request_id(domain)
    refused = await submit(domain, refs=SLOPE)
    assert (refused.status_code, refused.json()["code"]) == (429, "too-many-open-requests")
    assert refused.headers["Retry-After"] == "30"
    assert (await submit(domain)).json()["duplicate"] is True, "what is taken in already is still recognised"
    other = {"platform_id": "arcgis", "client_id": "arcgis-dev", "refs": {"item_id": "a", "layer_index": "0"}}
    assert (await submit(domain, **other)).status_code == 202
    await order(domain, f"/requests/{first}/cancel")
    assert (await submit(domain, refs=SLOPE)).status_code == 202


async def test_a_failed_run_is_done_again(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    await flow.fail()
    answer = await order(domain, f"/runs/{flow.run_id}/rerun", {"scope": "failed"})
    assert (answer.status_code, answer.json()["status"]) == (202, "pending")
    assert domain.rows("select problem, finished_at from app.requests") == [(None, None)]
    again = await started(domain)
    assert (await again.commit()).json()["state"] == "completed"
    assert domain.rows("select number, state from app.attempts order by 1") == [(1, "failed"), (2, "committed")]
    assert domain.rows("select processing from app.revisions") == [("completed",)]


async def test_rerun_of_a_parked_run_has_all_its_attempts_again(domain: Domain) -> None:
    await submit(domain)
    for _ in range(3):
        await (await started(domain)).fail("lost")
    [(run_id,)] = domain.rows("select run_id from app.runs where reason = 'parked'")
    assert (await order(domain, f"/runs/{run_id}/rerun", {})).status_code == 202
    for left in ("pending", "pending", "failed"):
        assert (await (await started(domain)).fail("lost")).json()["state"] == left


async def test_a_completed_run_is_done_again_on_demand_and_leaves_one_set_of_artifacts(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    cog = {"role": "cog", "zone": "silver", "name": "a/b.tif", "media_type": "image/tiff"}
    await flow.commit(artifacts=[flow.own(cog, b"a")])
    assert (await order(domain, f"/runs/{flow.run_id}/rerun", {})).json()["code"] == "not-rerunnable"
    assert (await order(domain, f"/runs/{flow.run_id}/rerun", {"scope": "all", "definition": "current"})).is_success
    again = await started(domain)
    await again.commit(artifacts=[again.own(cog, b"b")])
    assert domain.rows("select sha256 from app.artifacts") == [(sha256(b"b").hexdigest(),)]


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_rerun_of_a_decided_revision_is_refused(domain: Domain, decision: str) -> None:
    asset_id = await processed(domain)
    await decide(domain, asset_id, 0, decision)
    [(run_id,)] = domain.rows("select run_id from app.runs")
    answer = await order(domain, f"/runs/{run_id}/rerun", {"scope": "all"})
    assert (answer.status_code, answer.json()["code"]) == (409, "not-rerunnable")


async def test_rerun_of_a_replaced_revision_is_refused(domain: Domain) -> None:
    await approved(domain)
    await submit(domain, source="uploads/b")
    flow = await started(domain)
    await flow.fail()
    await submit(domain, source="uploads/c")
    answer = await order(domain, f"/runs/{flow.run_id}/rerun", {})
    assert "newer revision" in answer.json()["detail"]


async def test_retry_in_prefect_opens_a_new_attempt_of_the_same_flow_run(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    await flow.fail()
    assert (await flow.start()).status_code == 409, "asked again, not retried"
    retried = (await flow.start(run_count=2)).json()
    assert retried["attempt_token"] != flow.token
    assert retried["facts"]["attempt"] == 2
    assert (await flow.commit()).status_code == 409
    again = Flow(domain, flow.run_id, retried["attempt_token"], flow.flow_run_id)
    assert (await again.commit()).json()["state"] == "completed"
    assert domain.rows("select status, problem from app.requests") == [("completed", None)]


async def test_only_operators_give_orders(domain: Domain) -> None:
    waiting = await request_id(domain)
    run_id = domain.rows("select run_id from app.runs")[0][0]
    orders: list[tuple[str, Any]] = [
        (f"/runs/{run_id}/cancel", WHY),
        (f"/runs/{run_id}/rerun", {}),
        (f"/requests/{waiting}/priority", {"priority": "high"}),
        ("/pause", WHY),
        ("/resume", {}),
    ]
    for path, body in orders:
        for caller in ("ddh-dev", "reviewer", "worker", "gateway"):
            assert (await order(domain, path, body, by=caller)).status_code == 403, (path, caller)
    listed = (await order(domain, "/runs?status=active", None, by="reviewer", method="GET")).json()["runs"]
    assert listed[0]["run_id"] == str(run_id)
