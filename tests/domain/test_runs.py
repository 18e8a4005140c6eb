"""The fence: one flow run per attempt, one accepted outcome per run, and every lost answer safe to ask for again."""

import asyncio
from uuid import uuid4

import pytest

from tests.support.acts import OUTPUTS, Flow, call, dispatched, processed, started, submit
from tests.support.platform import Domain

LOST = {"code": "child-run-lost", "message": "A child run was lost."}


async def test_started_run_is_completed_by_its_commit(domain: Domain) -> None:
    await submit(domain)
    [flow] = await dispatched(domain)
    order = (await flow.start()).json()
    assert order["plan"]["workflow_id"] == "raster_ingest"
    assert order["inputs"]["source"] == "uploads/dem.tif"
    assert (order["facts"]["attempt"], order["facts"]["refs"]["resource_id"]) == (1, "dem")
    assert domain.rows("select status from app.requests") == [("processing",)]
    answer = await flow.commit()
    assert answer.json() == {"run_id": str(flow.run_id), "state": "completed"}
    assert domain.rows("select status, result->>'cog' from app.requests") == [("completed", OUTPUTS["cog"])]
    assert domain.rows("select processing, content_hash, approval from app.revisions") == [
        ("completed", "f" * 64, "pending_review")
    ]


async def test_wrong_attempt_token_is_refused(domain: Domain) -> None:
    await submit(domain)
    [flow] = await dispatched(domain)
    stranger = Flow(domain, flow.run_id, "guessed")
    for answer in (await stranger.start(), await stranger.commit(), await stranger.fail()):
        assert (answer.status_code, answer.json()["code"]) == (409, "attempt-fenced")
    assert (await stranger.beat()).json() == {"stop": True}
    assert domain.rows("select state, flow_run_id from app.attempts") == [("sending", None)]


async def test_an_unknown_run_is_not_found(domain: Domain) -> None:
    answer = await Flow(domain, uuid4(), "any").start()
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


async def test_a_second_flow_run_is_turned_away(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    other = Flow(domain, flow.run_id, flow.token)
    assert (await other.start()).status_code == 409
    assert domain.rows("select flow_run_id from app.attempts") == [(flow.flow_run_id,)]


async def test_one_of_several_racing_flow_runs_starts(domain: Domain) -> None:
    await submit(domain)
    [flow] = await dispatched(domain)
    racers = [Flow(domain, flow.run_id, flow.token) for _ in range(10)]
    answers = await asyncio.gather(*(racer.start() for racer in racers))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9


async def test_repeated_message_is_given_the_same_answer(domain: Domain) -> None:
    await submit(domain)
    [flow] = await dispatched(domain)
    assert (await flow.start()).json() == (await flow.start()).json()
    assert (await flow.commit()).json() == (await flow.commit()).json()
    assert domain.rows("select count(*) from app.events where kind = 'run.completed'") == [(1,)]


async def test_one_of_several_racing_outcomes_is_taken(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    answers = await asyncio.gather(*([flow.commit() for _ in range(5)] + [flow.fail() for _ in range(5)]))
    assert {answer.status_code for answer in answers} == {200, 409}
    ends = ["run.completed", "run.failed", "request.completed", "request.failed"]
    assert domain.rows("select count(*) from app.events where kind = any(%s)", ends) == [(2,)]


async def test_a_late_commit_after_fencing_changes_nothing(domain: Domain) -> None:
    await submit(domain)
    late = await started(domain)
    assert (await late.fail("lost", **LOST)).json()["state"] == "pending"
    [flow] = await dispatched(domain)
    assert (await late.commit({"cog": "stale"})).status_code == 409
    assert (await late.start()).status_code == 409
    assert (await late.beat()).json() == {"stop": True}
    await flow.start()
    assert (await flow.commit()).json()["state"] == "completed"
    assert domain.rows("select outputs->>'cog' from app.runs") == [(OUTPUTS["cog"],)]
    assert domain.rows("select number, state from app.attempts order by 1") == [(1, "failed"), (2, "committed")]


async def test_a_commit_without_a_start_is_refused(domain: Domain) -> None:
    await submit(domain)
    [flow] = await dispatched(domain)
    assert (await flow.commit()).status_code == 409
    assert domain.rows("select state from app.runs") == [("pending",)]


async def test_lost_run_is_tried_up_to_its_last_attempt(domain: Domain) -> None:
    await submit(domain)
    for left in ("pending", "pending", "failed"):
        flow = await started(domain)
        await flow.beat({"node_id": "fetch", "state": "running"})
        assert (await flow.fail("lost", **LOST)).json()["state"] == left
    assert await dispatched(domain) == []
    [(state, reason, code)] = domain.rows("select state, reason, problem->>'code' from app.runs")
    assert (state, reason, code) == ("failed", "parked", "attempts-exhausted")
    [(status, told)] = domain.rows("select status, problem->>'code' from app.requests")
    assert (status, told) == ("failed", "attempts-exhausted")


@pytest.mark.parametrize("readable", [True, False])
async def test_a_failure_ends_the_request_in_words_for_its_partner(domain: Domain, readable: bool) -> None:
    await submit(domain)
    flow = await started(domain)
    assert (await flow.fail(partner_may_read=readable)).json()["state"] == "failed"
    [(status, problem)] = domain.rows("select status, problem from app.requests")
    assert status == "failed"
    assert (problem["detail"] == "It is broken.") is readable
    assert domain.rows("select processing from app.revisions") == [("failed",)]


async def test_node_states_are_shown_as_heartbeats_report_them(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    running = {"node_id": "validate", "state": "running"}
    done = {"node_id": "validate", "state": "completed", "tries": 1}
    assert (await flow.beat(running, {"node_id": "make_cog", "state": "running", "fraction": 0.5})).json() == {
        "stop": False
    }
    await flow.beat(done)
    rows = domain.rows("select node_id, state, fraction from app.run_nodes where state <> 'pending' order by position")
    assert rows == [("validate", "completed", None), ("make_cog", "running", 0.5)]


async def test_a_segment_needs_a_running_attempt(domain: Domain) -> None:
    await submit(domain)
    [flow] = await dispatched(domain)
    child = Flow(domain, flow.run_id, flow.token)
    assert (await child.start(segment=1)).status_code == 409
    await flow.start()
    assert (await child.start(segment=1, pool="gdal")).status_code == 200
    assert domain.rows("select flow_run_id, segment, pool from app.attempt_flow_runs where segment is not null") == [
        (child.flow_run_id, 1, "gdal")
    ]


async def test_artifacts_belong_to_the_revision_that_made_them(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    cog = {"role": "cog", "zone": "silver", "name": "a/b.tif", "media_type": "image/tiff"}
    await flow.commit(artifacts=[flow.own(cog, b"a", bbox=[1, 2, 3, 4])])
    assert domain.rows("select role, name, ordinal, revision, bbox from app.artifacts") == [
        ("cog", f"{flow.home}/a1/a/b.tif", 0, 1, [1.0, 2.0, 3.0, 4.0])
    ]


async def test_a_resubmission_fences_what_still_runs(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    await submit(domain, source="uploads/better.tif")
    assert (await flow.beat()).json() == {"stop": True}
    assert (await flow.commit()).status_code == 409
    assert domain.rows("select revision, processing from app.revisions order by 1") == [
        (1, "cancelled"),
        (2, "pending"),
    ]


async def test_a_commit_that_wins_against_a_resubmission_stays_completed(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    for round_number in range(5):
        committed, resubmitted = await asyncio.gather(flow.commit(), submit(domain, source=f"uploads/{round_number}"))
        assert resubmitted.status_code == 202
        [(run, request)] = domain.rows(
            "select r.state, q.status from app.runs r join app.requests q using (request_id) where r.run_id = %s",
            flow.run_id,
        )
        assert (run, request) == (("completed",) * 2 if committed.status_code == 200 else ("cancelled",) * 2)
        flow = await started(domain)


async def test_internal_runs_touch_no_asset(domain: Domain) -> None:
    async with domain.as_("operator") as operator:
        answer = await operator.post("/api/v1/runs", json={"workflow_id": "echo_test", "inputs": {"message": "hi"}})
    assert answer.status_code == 202
    flow = await started(domain)
    await flow.commit({"echoed_params": {}})
    assert domain.rows("select status, is_internal, asset_id from app.requests") == [("completed", True, None)]


async def test_completed_revision_is_not_served_before_its_review(domain: Domain) -> None:
    asset_id = await processed(domain)
    assert domain.rows("select served_revision from app.asset_versions where asset_id = %s", asset_id) == [(None,)]


async def test_a_flow_run_that_registers_twice_at_once_has_one_run(domain: Domain) -> None:
    """As where its first asking took longer than it waited for the answer."""
    message = {"workflow_id": "echo_test", "flow_run_id": str(uuid4()), "inputs": {}}
    answers = await asyncio.gather(*(call(domain, "worker", "POST", "/runs/register", message) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["attempt_token"] for answer in answers}) == 1
    assert domain.rows("select count(*) from app.requests") == [(1,)]
