"""What operators read of jobs: by the ids of runs and flow runs, of every platform, in pages."""

from typing import Any
from uuid import uuid4

from tests.gateway.world import call, failed, started, submitted
from tests.support.platform import Platform


async def read(platform: Platform, path: str, **query: object) -> dict[str, object]:
    answer = await call(platform, "operator", "GET", f"/api/status{path}", params=query)
    assert answer.status_code == 200, answer.text
    told: dict[str, object] = answer.json()
    return told


async def test_a_job_is_read_with_its_nodes_and_events_and_found_by_its_flow_run(platform: Platform) -> None:
    known = await started(platform)
    job = await read(platform, f"/job/{known.run_id}")
    assert (job["job_id"], job["request_id"], job["state"]) == (known.run_id, known.request_id, "running")
    assert (job["platform_id"], job["flow_run_id"], job["attempt"]) == ("ddh", known.flow_run_id, 1)
    nodes = await read(platform, f"/job/{known.run_id}/nodes", limit=3)
    rest = await read(platform, f"/job/{known.run_id}/nodes", after=nodes["next"])
    names = [node["node_id"] for page in (nodes, rest) for node in page["nodes"]]  # type: ignore[attr-defined]
    assert names == [row[0] for row in platform.domain.rows("select node_id from app.run_nodes order by position")]
    events = await read(platform, f"/job/{known.run_id}/events")
    assert [event["kind"] for event in events["events"]][-1] == "request.processing"  # type: ignore[attr-defined]
    found = await read(platform, "/lookup", flow_run_id=known.flow_run_id)
    assert (found["job_id"], found["attempt"], found["attempt_state"]) == (known.run_id, 1, "started")


async def test_events_of_a_job_tell_each_change_of_each_node_in_pages(platform: Platform) -> None:
    known = await started(platform)
    beat = [{"node_id": "fetch", "state": state, "tries": 1} for state in ("running", "completed")]
    [(token,)] = platform.domain.rows("select token from app.attempts where run_id = %s", known.run_id)
    async with platform.domain.as_("worker") as worker:
        body = {"attempt_token": token, "events": beat}
        assert (await worker.post(f"/api/v1/runs/{known.run_id}/heartbeat", json=body)).status_code == 200
    seen: list[dict[str, Any]] = []
    after: object = 0
    while after is not None:
        page: dict[str, Any] = await read(platform, f"/job/{known.run_id}/events", after=after, limit=2)
        seen, after = seen + page["events"], page["next"]
    assert [event["kind"] for event in seen[-2:]] == ["node.running", "node.completed"]
    assert {"node": "fetch", "attempt": 1, "before": "running"}.items() <= seen[-1]["details"].items()
    assert [event["event_id"] for event in seen] == sorted({event["event_id"] for event in seen})
    answer = await call(platform, "ddh-dev", "GET", f"/api/status/job/{known.run_id}/events")
    assert answer.status_code in {403, 404}


async def test_jobs_are_listed_newest_first_in_pages_and_by_state(platform: Platform) -> None:
    made = [await submitted(platform, resource_id=f"r{number}") for number in range(3)]
    lost = await failed(platform, resource_id="lost")
    for known in made:  # those that waited were dispatched with the one that failed
        assert known.run_id != lost.run_id
    ids, after = [], None
    while True:
        page = await read(platform, "/jobs", limit=2, **({"after": after} if after else {}))
        ids += [job["job_id"] for job in page["jobs"]]  # type: ignore[attr-defined]
        if (after := page["next"]) is None:
            break
    assert ids == [lost.run_id, *[known.run_id for known in reversed(made)]]
    failures = await read(platform, "/jobs", state="failed")
    assert [job["job_id"] for job in failures["jobs"]] == [lost.run_id]  # type: ignore[attr-defined]
    assert (await read(platform, "/jobs", platform_id="arcgis"))["jobs"] == []
    told = {"code": "broken-raster", "message": "It is broken.", "node_id": None, "partner_may_read": True}
    assert failures["jobs"][0]["problem"] == told  # type: ignore[index]
    counts = await read(platform, "/stats", window="1h")
    assert counts["total"] == 4


async def test_unknown_job_is_answered_404(platform: Platform) -> None:
    for path in (
        f"/job/{uuid4()}",
        f"/job/{uuid4()}/nodes",
        f"/job/{uuid4()}/events",
        f"/lookup?flow_run_id={uuid4()}",
    ):
        answer = await call(platform, "operator", "GET", f"/api/status{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    answer = await call(platform, "operator", "GET", "/api/status/jobs?after=nonsense")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-query")


async def test_a_request_of_an_operator_is_seen_by_operators_only(platform: Platform) -> None:
    async with platform.domain.as_("operator") as operator:
        made = await operator.post("/api/v1/runs", json={"workflow_id": "echo_test", "inputs": {}})
    assert made.status_code in {200, 201, 202}, made.text
    told = await read(platform, "/jobs")
    assert [job["is_internal"] for job in told["jobs"]] == [True]  # type: ignore[attr-defined]
    for client_id in ("ddh-dev", "operator"):
        answer = await call(platform, client_id, "GET", f"/api/platform/status/{made.json()['request_id']}")
        assert answer.status_code == 404
