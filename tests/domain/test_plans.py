"""Requests of several runs: in order, results flowing forward, one failure ending what comes after."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from deployments.stack.state import REPOSITORY
from tests.support.acts import Flow, call, dispatched, submit
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, running_domain

VALIDATED: dict[str, Any] = {
    "source": "uploads/fetched.tif",
    "origin": "uploads/dem.tif",
    "crs": "EPSG:32633",
    "sha256": "a" * 64,
    "reading": "ranges",
    "validation": {"sha256": "a" * 64, "bands": 1},
}
PROCESSED: dict[str, Any] = {
    "cog": "rasters/x.tif",
    "product": {"href": "rasters/x.tif"},
    "bounds": [14.7, 47.4, 15.3, 47.9],
    "bands": [{"dtype": "uint16"}],
}
CATALOGUED: dict[str, Any] = {"item_id": "x-0-r1", "collection_id": "x"}


def states(domain: Domain) -> list[tuple[object, ...]]:
    return domain.rows("select step_id, state from app.runs order by sequence")


async def begin(domain: Domain) -> Flow:
    """The first step of the staged ingest, started."""
    assert (await submit(domain, operation="ingest_staged")).status_code == 202
    return await next_step(domain)


async def next_step(domain: Domain) -> Flow:
    [flow] = await dispatched(domain)
    assert (await flow.start()).status_code == 200
    return flow


async def test_each_step_is_queued_by_the_commit_of_the_one_before(domain: Domain) -> None:
    validate = await begin(domain)
    assert states(domain) == [("validate", "running"), ("process", "pending"), ("catalogue", "pending")]
    await validate.commit(VALIDATED)
    process = await next_step(domain)
    assert domain.rows("select inputs->>'source_crs' from app.runs where step_id = 'process'") == [("EPSG:32633",)]
    await process.commit(PROCESSED)
    assert domain.rows("select status from app.requests") == [("processing",)]
    catalogue = await next_step(domain)
    await catalogue.commit(CATALOGUED)
    [(status, result)] = domain.rows("select status, result from app.requests")
    assert status == "completed"
    assert result == {
        "cog": "rasters/x.tif",
        "item_id": "x-0-r1",
        "collection_id": "x",
        "bounds": PROCESSED["bounds"],
        "bands": PROCESSED["bands"],
        "validation": VALIDATED["validation"],
    }
    assert domain.rows("select processing, content_hash from app.revisions") == [("completed", "a" * 64)]


async def test_failed_step_cancels_the_later_ones(domain: Domain) -> None:
    validate = await begin(domain)
    await validate.fail()
    assert states(domain) == [("validate", "failed"), ("process", "cancelled"), ("catalogue", "cancelled")]
    assert domain.rows("select status from app.requests") == [("failed",)]
    assert await dispatched(domain) == []


@pytest.mark.parametrize("scope", ["failed", "all"])
async def test_rerun_of_a_failed_step_revives_the_cancelled_ones(domain: Domain, scope: str) -> None:
    await (await begin(domain)).commit(VALIDATED)
    process = await next_step(domain)
    await process.fail()
    answer = await call(domain, "operator", "POST", f"/runs/{process.run_id}/rerun", {"scope": scope})
    assert answer.status_code == 202, answer.text
    expected = "completed" if scope == "failed" else "pending"
    assert states(domain) == [("validate", expected), ("process", "pending"), ("catalogue", "pending")]
    steps = [VALIDATED, PROCESSED, CATALOGUED]
    for outputs in steps if scope == "all" else steps[1:]:
        assert (await (await next_step(domain)).commit(outputs)).status_code == 200
    assert domain.rows("select status from app.requests") == [("completed",)]


async def test_retry_in_prefect_revives_the_cancelled_steps(domain: Domain) -> None:
    validate = await begin(domain)
    await validate.fail()
    retried = (await validate.start(run_count=2)).json()
    assert states(domain) == [("validate", "running"), ("process", "pending"), ("catalogue", "pending")]
    again = Flow(domain, validate.run_id, retried["attempt_token"], validate.flow_run_id)
    await again.commit(VALIDATED)
    assert len(await dispatched(domain)) == 1


async def test_a_result_that_the_next_step_cannot_take_fails_the_request(domain: Domain) -> None:
    validate = await begin(domain)
    answer = await validate.commit(VALIDATED | {"crs": "somewhere"})
    assert answer.json()["state"] == "completed"
    assert states(domain) == [("validate", "completed"), ("process", "failed"), ("catalogue", "cancelled")]
    assert domain.rows("select problem->>'code' from app.runs where step_id = 'process'") == [("step-inputs-invalid",)]
    assert domain.rows("select status from app.requests") == [("failed",)]


async def test_a_rerun_that_fails_at_once_ends_the_request_once_more(domain: Domain) -> None:
    """What ends is finished: nobody waits for it, its leftovers are due, and its partner is told."""
    validate = await begin(domain)
    await validate.commit(VALIDATED | {"crs": "somewhere"})
    [(process,)] = domain.rows("select run_id from app.runs where step_id = 'process'")
    answer = await call(domain, "operator", "POST", f"/runs/{process}/rerun", {"scope": "failed"})
    assert (answer.status_code, answer.json()["status"]) == (202, "failed")
    assert states(domain) == [("validate", "completed"), ("process", "failed"), ("catalogue", "cancelled")]
    assert domain.rows("select status, finished_at is not null, problem->>'code' from app.requests") == [
        ("failed", True, "processing-failed")
    ]
    assert domain.rows("select processing from app.revisions") == [("failed",)]
    told = domain.rows("select kind from app.events where starts_with(kind, 'request.') order by event_id")
    assert [str(kind) for (kind,) in told][-3:] == ["request.reopened", "request.pending", "request.failed"]


async def test_large_result_is_given_whole_to_the_next_step_and_the_partner(domain: Domain) -> None:
    """Whole, as the run returned it, and not where some process has put it."""
    validation = {"sha256": "a" * 64, "notes": ["n" * 100] * 400}
    await (await begin(domain)).commit(VALIDATED | {"validation": validation})
    await (await next_step(domain)).commit(
        PROCESSED | {"product": {"href": "rasters/x.tif", "parts": ["p" * 90] * 400}}
    )
    catalogue = await next_step(domain)
    assert domain.rows("select length(inputs->>'product') > 36000 from app.runs where step_id = 'catalogue'") == [
        (True,)
    ]
    assert (await catalogue.commit(CATALOGUED)).status_code == 200
    assert domain.rows("select result->'validation' from app.requests") == [(validation,)]


async def test_result_that_the_plan_cannot_return_fails_the_request_and_not_the_commit(domain: Domain) -> None:
    """Nothing is answered with a 500 that a worker would try again; the last run tells what is wrong, and can rerun."""
    await (await begin(domain)).commit(VALIDATED)
    await (await next_step(domain)).commit(PROCESSED)
    catalogue = await next_step(domain)
    answer = await catalogue.commit({"collection_id": "x"})
    assert (answer.status_code, answer.json()["state"]) == (200, "failed")
    assert states(domain) == [("validate", "completed"), ("process", "completed"), ("catalogue", "failed")]
    [(code, message)] = domain.rows(
        "select problem->>'code', problem->>'message' from app.runs where problem is not null"
    )
    assert (code, "item_id" in message) == ("plan-outputs-invalid", True)
    assert domain.rows("select status, problem->>'code' from app.requests") == [("failed", "processing-failed")]
    again = await call(domain, "operator", "POST", f"/runs/{catalogue.run_id}/rerun", {"scope": "failed"})
    assert again.status_code == 202, again.text
    assert (await (await next_step(domain)).commit(CATALOGUED)).status_code == 200
    assert domain.rows("select status from app.requests") == [("completed",)]


async def test_cancelling_a_request_ends_every_step(domain: Domain) -> None:
    validate = await begin(domain)
    await call(domain, "operator", "POST", f"/runs/{validate.run_id}/cancel", {"reason": "because"})
    assert states(domain) == [("validate", "cancelled"), ("process", "cancelled"), ("catalogue", "cancelled")]
    assert (await validate.commit(VALIDATED)).status_code == 409


async def test_wrong_inputs_of_a_plan_are_refused_at_once(domain: Domain) -> None:
    answer = await submit(domain, operation="ingest_staged", parameters={"target_crs": "WGS84"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-submission")


async def test_rerun_of_a_step_behind_one_that_failed_is_refused(domain: Domain) -> None:
    """It would wait for that one for ever."""
    validate = await begin(domain)
    await validate.fail()
    [(later,)] = domain.rows("select run_id from app.runs where step_id = 'catalogue'")
    refused = await call(domain, "operator", "POST", f"/runs/{later}/rerun", {"scope": "failed"})
    assert refused.status_code == 409
    assert "Run 1 of the request is failed. Rerun that one" in refused.json()["detail"]
    assert domain.rows("select status, finished_at is not null from app.requests") == [("failed", True)]
    whole = await call(domain, "operator", "POST", f"/runs/{later}/rerun", {"scope": "all"})
    assert whole.status_code == 202


# --- steps side by side ---

PARALLEL = """
plan_id: parallel
version: 1
accepts: {data_type: [raster], operation: [both]}
inputs: {source: {type: string, required: true}}
steps:
  - {id: one, workflow: echo_test}
  - {id: two, workflow: echo_test}
"""


FORKED = """
plan_id: forked
version: 1
accepts: {data_type: [raster], operation: [fork]}
inputs: {source: {type: string, required: true}}
steps:
  - {id: one, workflow: echo_test}
  - {id: two, workflow: echo_test, depends_on: one, inputs: {message: "{{ steps.one.outputs.echoed_params }}"}}
  - {id: three, workflow: echo_test, depends_on: one, inputs: {message: "{{ steps.one.outputs.echoed_params }}"}}
  - {id: four, workflow: echo_test, depends_on: one}
"""


@pytest.fixture
async def parallel(shared_database: TestDatabase, tmp_path: Path) -> AsyncIterator[Domain]:
    folder = tmp_path / "workflows"
    shutil.copytree(REPOSITORY / "workflows", folder)
    (folder / "plans" / "parallel.yaml").write_text(PARALLEL)
    (folder / "plans" / "forked.yaml").write_text(FORKED)
    async with running_domain(shared_database, tmp_path, workflows_dir=folder, quota_cache_seconds=0) as running:
        yield running


async def both(domain: Domain) -> list[Flow]:
    """The two steps, sent."""
    assert (await submit(domain, operation="both")).status_code == 202
    return await dispatched(domain)


@pytest.mark.parametrize("verb", ["start", "fail"])
async def test_independent_steps_run_side_by_side(parallel: Domain, verb: str) -> None:
    """Each notes an event of the request and then changes it: neither may wait for the other's note."""
    for round_ in range(10):
        refs = {"dataset_id": "d", "resource_id": str(round_)}
        assert (await submit(parallel, operation="both", refs=refs)).status_code == 202
        flows = await dispatched(parallel)
        if verb == "fail":
            assert all([(await flow.start()).is_success for flow in flows])
        answers = await asyncio.gather(*(flow.start() if verb == "start" else flow.fail() for flow in flows))
        assert [answer.status_code for answer in answers] == [200, 200], [answer.text for answer in answers]


async def test_step_beside_a_failed_one_can_be_cancelled(parallel: Domain) -> None:
    one, two = await both(parallel)
    assert (await one.start()).is_success
    assert (await two.start()).is_success
    await one.fail()
    [(request_id, status)] = parallel.rows("select request_id, status from app.requests")
    assert status == "failed"
    stop = await call(parallel, "operator", "POST", f"/requests/{request_id}/cancel", {"reason": "in vain"})
    assert (stop.status_code, stop.json()["status"]) == (200, "failed")
    assert (await two.beat()).json() == {"stop": True}
    assert sorted(str(state) for _, state in states(parallel)) == ["cancelled", "failed"]
    again = await call(parallel, "operator", "POST", f"/requests/{request_id}/cancel", {"reason": "in vain"})
    assert again.status_code == 409


async def test_rerun_of_the_first_failed_step_reopens_the_other_failed_ones(parallel: Domain) -> None:
    flows = await both(parallel)
    for flow in flows:
        await flow.start()
    for flow in flows:
        await flow.fail()
    runs = [run_id for (run_id,) in parallel.rows("select run_id from app.runs order by sequence")]
    refused = await call(parallel, "operator", "POST", f"/runs/{runs[1]}/rerun", {})
    assert refused.status_code == 409
    assert (await call(parallel, "operator", "POST", f"/runs/{runs[0]}/rerun", {})).status_code == 202
    assert [state for _, state in states(parallel)] == ["pending", "pending"]
    for flow in await dispatched(parallel):
        await flow.start()
        assert (await flow.commit({})).is_success
    assert parallel.rows("select status, finished_at is not null from app.requests") == [("completed", True)]


async def test_each_step_with_unusable_inputs_fails_with_the_reason(parallel: Domain) -> None:
    assert (await submit(parallel, operation="fork")).status_code == 202
    [one] = await dispatched(parallel)
    await one.start()
    assert (await one.commit({"echoed_params": {}})).json()["state"] == "completed"
    assert states(parallel) == [("one", "completed"), ("two", "failed"), ("three", "failed"), ("four", "cancelled")]
    told = parallel.rows("select problem->>'code' from app.runs where state = 'failed'")
    assert told == [("step-inputs-invalid",)] * 2
    assert parallel.rows("select count(*) from app.events where kind = 'request.failed'") == [(1,)]
    assert await dispatched(parallel) == []
