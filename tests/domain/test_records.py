"""What operators read: the run's record, lists that page while they grow, timelines that stay small."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from domain.contracts.records import LogLine
from domain.models import Request
from tests.support.acts import Flow, call, dispatched
from tests.support.lives import completed, failed, started, submitted, worker
from tests.support.platform import Domain

SMALL, QUICK_SECONDS = 200_000, 5.0  # a twentieth of a second is usual; what hangs or reads all takes longer


async def read(domain: Domain, path: str, **query: str | int) -> Any:
    async with domain.as_("operator") as operator:
        answer = await operator.get(f"/api/v1/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_request_record_shows_every_stored_column(domain: Domain) -> None:
    request_id = await submitted(domain)
    shown = await read(domain, f"requests/{request_id}")
    assert set(shown) - {"runs"} == {column.name for column in Request.__table__.columns}
    assert [(run["workflow_id"], run["state"]) for run in shown["runs"]] == [("raster_ingest", "pending")]


async def test_timeline_shows_the_last_log_lines_or_none_while_prefect_is_away(domain: Domain) -> None:
    request_id = await submitted(domain)
    await started(domain, request_id)
    [(flow_run_id,)] = domain.rows("select flow_run_id from app.attempts")
    line = LogLine(at=datetime.now(UTC), level=20, flow_run_id=flow_run_id, task="validate", text="reading")

    async def prefect(flow_runs: Sequence[UUID], _limit: int) -> list[LogLine]:
        assert list(flow_runs) == [flow_run_id]
        return [line]

    async def silent(_flow_runs: Sequence[UUID], _limit: int) -> list[LogLine]:
        await asyncio.sleep(60)
        return []

    async def broken(_flow_runs: Sequence[UUID], _limit: int) -> list[LogLine]:
        raise ConnectionError

    app = domain.transport.app  # type: ignore[attr-defined]
    for answering, logs in ((prefect, [line.model_dump(mode="json")]), (silent, None), (broken, None)):
        app.state.service = replace(domain.service, last_lines=answering)
        began = time.monotonic()
        assert (await read(domain, f"requests/{request_id}/timeline"))["logs"] == logs
        assert time.monotonic() - began < QUICK_SECONDS


async def test_a_run_s_record_is_its_processing_block(domain: Domain) -> None:
    request_id = await submitted(domain)
    run_id, token = await started(domain, request_id)
    event = {"node_id": "validate", "state": "running", "tries": 1, "message": "reading"}
    await worker(domain, f"{run_id}/heartbeat", {"attempt_token": token, "events": [event]})
    record = await read(domain, f"runs/{run_id}")
    assert (record["type"], record["priority"], record["state"], record["sequence"]) == (
        "offline", "normal", "running", 1,
    )  # fmt: skip
    assert record["workflow"]["id"] == "raster_ingest"
    assert (record["platform_id"], record["ordinal"], record["revision"]) == ("ddh", 0, 1)
    assert [stage["id"] for stage in record["stages"]] == [
        "start", "fetch", "validate", "plan", "make_cog", "tiles", "tiled", "join", "discard", "register", "end",
    ]  # fmt: skip
    validate, _, make_cog = record["stages"][2:5]
    assert (validate["status"], validate["timeout_seconds"], validate["tries"]) == ("running", 120, 1)
    assert validate["parameters"]["source"] == "{{ nodes.fetch.output.source }}"
    assert make_cog["dependencies"] == ["plan"]
    assert make_cog["resources_assigned"]["pool"] == "gdal"
    [attempt] = record["attempts"]
    assert attempt["state"] == "started"
    assert token not in str(record)
    part = await read(domain, f"runs/{run_id}", first_stage=9, stages=1)
    assert ([stage["id"] for stage in part["stages"]], part["stages_total"]) == (["register"], 11)


async def test_run_record_shows_pool_image_and_template_of_each_flow_run(domain: Domain) -> None:
    await submitted(domain)
    [flow] = await dispatched(domain)
    child = Flow(domain, flow.run_id, flow.token)
    await flow.start(pool="light", image="cairn/light:7", job_template="docker")
    await child.start(segment=1, pool="gdal", image="cairn/gdal:7", job_template="kubernetes")
    [attempt] = (await read(domain, f"runs/{flow.run_id}"))["attempts"]
    facts = ("segment", "pool", "image", "job_template")
    assert [tuple(one[name] for name in facts) for one in attempt["flow_runs"]] == [
        (None, "light", "cairn/light:7", "docker"),
        (1, "gdal", "cairn/gdal:7", "kubernetes"),
    ]


async def test_lists_page_by_status_without_gaps_or_repeats(domain: Domain) -> None:
    for number in range(7):
        request_id = await submitted(domain, refs={"dataset_id": "a", "resource_id": str(number)})
        if number % 2:
            await completed(domain, request_id)
    domain.rows("update app.runs set created_at = '2026-01-01' where sequence = 1 returning 1")  # all at one moment
    for status, count in (("active", 4), ("pending", 4), ("completed", 3), ("failed", 0)):
        seen: list[str] = []
        query: dict[str, str | int] = {"status": status, "limit": 2}
        while True:
            page = await read(domain, "runs", **query)
            seen += [run["run_id"] for run in page["runs"]]
            if page["next"] is None:
                break
            query["after"] = page["next"]
        assert len(seen) == len(set(seen)) == count
    assert len((await read(domain, "runs", platform_id="arcgis"))["runs"]) == 0
    assert len((await read(domain, "runs", workflow_id="raster_ingest"))["runs"]) == 7


async def test_requests_are_listed_by_reference_status_and_platform(domain: Domain) -> None:
    made = [await submitted(domain, refs={"dataset_id": "d", "resource_id": str(number)}) for number in range(3)]
    await started(domain, made[0])
    first = await read(domain, "requests", limit=2)
    rest = await read(domain, "requests", limit=2, after=first["next"])
    assert [one["request_id"] for one in first["requests"] + rest["requests"]] == [str(one) for one in reversed(made)]
    assert rest["next"] is None
    assert [one["request_id"] for one in (await read(domain, "requests", status="processing"))["requests"]] == [made[0]]
    assert len((await read(domain, "requests", status="active", platform_id="ddh"))["requests"]) == 3
    asset_id = first["requests"][0]["asset_id"]
    assert [one["request_id"] for one in (await read(domain, "requests", asset_id=asset_id))["requests"]] == [made[2]]
    assert (await read(domain, "requests", platform_id="arcgis"))["requests"] == []
    [(flow_run_id, run_id)] = domain.rows("select flow_run_id, run_id from app.attempts where flow_run_id is not null")
    assert (await read(domain, "status/lookup", flow_run_id=str(flow_run_id)))["run_id"] == str(run_id)
    unknown = await call(domain, "operator", "GET", f"/status/lookup?flow_run_id={uuid4()}")
    assert (unknown.status_code, "flow run" in unknown.json()["detail"]) == (404, True)
    assert (await read(domain, "platforms/ddh"))["platform_id"] == "ddh"
    assert (await call(domain, "operator", "GET", "/platforms/nobody")).status_code == 404


async def test_workflow_record_shows_operations_inputs_and_source(domain: Domain) -> None:
    known = {workflow["workflow_id"]: workflow for workflow in await read(domain, "workflows")}
    assert known["raster_ingest"]["accepts"] == ["raster/ingest"]
    detail = await read(domain, "workflows/raster_ingest")
    assert detail["input_schema"]["required"] == ["source"]
    assert detail["source"].startswith("# Promises")
    async with domain.as_("operator") as operator:
        assert (await operator.get("/api/v1/workflows/none")).status_code == 404
        assert (await operator.get(f"/api/v1/runs/{uuid4()}")).status_code == 404


async def test_a_timeline_tells_a_request_s_life_in_order(domain: Domain) -> None:
    request_id = await submitted(domain)
    run_id, token = await started(domain, request_id)
    events = [
        {"node_id": "validate", "state": "running", "tries": 2},
        {"node_id": "validate", "state": "completed", "items_total": 3, "items_done": 2, "items_failed": 1},
    ]
    await worker(domain, f"{run_id}/heartbeat", {"attempt_token": token, "events": events})
    asset_id = domain.rows("select asset_id from app.assets")[0][0]
    place = {"zone": "silver", "name": f"assets/{asset_id}/0-r1/a1/b", "media_type": "image/tiff"}
    artifact = {"role": "tile", "sha256": "0" * 64, "size_bytes": 5, **place}
    body = {
        "attempt_token": token,
        "outputs": {},
        "artifacts": [artifact, artifact | {"name": f"assets/{asset_id}/0-r1/a1/c"}],
    }
    await worker(domain, f"{run_id}/commit", body)
    async with domain.as_("reviewer") as reviewer:
        decision = {"revision": 1, "reason": "Wrong place."}
        assert (await reviewer.post(f"/api/v1/assets/{asset_id}/versions/0/reject", json=decision)).status_code == 200
    timeline = await read(domain, f"requests/{request_id}/timeline")
    assert [entry["kind"] for entry in timeline["entries"]] == [
        "request.accepted", "run.queued", "attempt.started", "request.processing", "node.running", "node.completed",
        "run.completed", "request.completed", "artifacts", "revision.rejected",
    ]  # fmt: skip
    facts = {entry["kind"]: entry["facts"] for entry in timeline["entries"]}
    assert facts["node.completed"]["items"] == {"total": 3, "done": 2, "failed": 1}
    assert facts["node.completed"]["tries"] == 2
    assert (facts["artifacts"]["count"], facts["artifacts"]["size_bytes"]) == (2, 10)
    assert facts["revision.rejected"]["actor"] == "reviewer"
    assert timeline["nodes"] == {"completed": 1, "pending": 10}


@pytest.mark.parametrize(("nodes", "items"), [(5, 10_000), (2_000, 0)])
async def test_the_largest_runs_have_small_and_quick_timelines(domain: Domain, nodes: int, items: int) -> None:
    request_id = await submitted(domain)
    await failed(domain, request_id, "x" * 4000)
    domain.rows("delete from app.run_nodes returning 1")
    domain.rows(
        "insert into app.run_nodes (run_id, node_id, position, type, handler, pool, state, tries, message, items_total,"
        " items_done, items_failed, problem, started_at, finished_at) select run_id, 'node_' || n, n, 'task',"
        " 'raster.create_cog', 'gdal', 'failed', 3, repeat('m', 500), %s, %s, 7, jsonb_build_object('code', 'c',"
        " 'message', repeat('p', 4000)), now(), now() + n * interval '1 ms' from app.runs, generate_series(1, %s) n"
        " returning 1", items, items, nodes,
    )  # fmt: skip
    domain.rows(
        "insert into app.artifacts (run_id, role, zone, name, media_type, sha256, size_bytes) select run_id, 'tile',"
        " 'silver', 'tiles/' || n, 'image/tiff', repeat('0', 64), 1000 from app.runs, generate_series(1, %s) n"
        " returning 1", items,
    )  # fmt: skip
    seen, after = 0, None
    while True:
        query: dict[str, str | int] = {"limit": 300} | ({"after": after} if after else {})
        answer, seconds = await timed(domain, f"/api/v1/requests/{request_id}/timeline", query)
        assert seconds < QUICK_SECONDS
        assert len(answer.content) < SMALL
        seen += len(answer.json()["entries"])
        after = answer.json()["next"]
        if after is None:
            break
    assert seen == nodes + (1 if items else 0) + 6


async def timed(domain: Domain, path: str, query: dict[str, str | int]) -> tuple[httpx.Response, float]:
    """The answer and its median time of three: other work on the machine is not what is measured."""
    answers: list[tuple[float, httpx.Response]] = []
    async with domain.as_("operator") as operator:
        for _ in range(3):
            begun = time.perf_counter()
            answer = await operator.get(path, params=query)
            answers.append((time.perf_counter() - begun, answer))
    seconds = statistics.median(taken for taken, _ in answers)
    return answers[-1][1], seconds
