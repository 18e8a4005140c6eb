"""OGC API – Processes over the domain: what is offered, executed, followed, dismissed, and to whom."""

from typing import Any
from uuid import uuid4

import httpx

from tests.support import ogc_shapes
from tests.support.acts import OUTPUTS, started
from tests.support.platform import Platform

INPUTS: dict[str, Any] = {"dataset_id": "elevation", "resource_id": "dem", "version_id": "1", "source": "uploads/d.tif"}
RASTER = "/ogc/processes/raster_ingest"


async def call(platform: Platform, method: str, path: str, by: str | None = "ddh-dev", **more: Any) -> httpx.Response:
    async with platform.as_(by) as partner:
        return await partner.request(method, path, **more)


async def execute(platform: Platform, path: str = RASTER, **changes: Any) -> httpx.Response:
    body = {"inputs": INPUTS | changes}
    return await call(platform, "POST", f"{path}/execution", json=body, headers={"Prefer": "respond-async"})


async def test_landing_page_links_to_every_resource(platform: Platform) -> None:
    page = await call(platform, "GET", "/ogc")
    assert ogc_shapes.faults(page.json(), ogc_shapes.LANDING) == []
    assert (await call(platform, "GET", "/ogc/")).json() == page.json()
    for link in page.json()["links"]:
        answer = await call(platform, "GET", link["href"])
        assert answer.status_code == 200, link
    conformance = (await call(platform, "GET", "/ogc/conformance")).json()
    assert ogc_shapes.faults(conformance, ogc_shapes.CONFORMANCE) == []
    assert "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/core" in conformance["conformsTo"]


async def test_every_operation_of_the_platform_is_a_process(platform: Platform) -> None:
    listed = (await call(platform, "GET", "/ogc/processes")).json()
    assert ogc_shapes.faults(listed, ogc_shapes.PROCESSES) == []
    assert [one["id"] for one in listed["processes"]] == [
        "raster_ingest",
        "raster_ingest_staged",
        "raster_ingest_tiled",
        "vector_ingest",
    ]
    for one in listed["processes"]:
        described = (await call(platform, "GET", one["links"][0]["href"])).json()
        assert ogc_shapes.faults(described, ogc_shapes.PROCESS) == []
        assert {name for name, given in described["inputs"].items() if given["minOccurs"]} == {*INPUTS}


async def test_inputs_are_in_the_words_of_the_callers_platform(platform: Platform) -> None:
    ours = (await call(platform, "GET", RASTER)).json()["inputs"]
    theirs = (await call(platform, "GET", RASTER, by="arcgis-dev")).json()["inputs"]
    assert ours.keys() - theirs.keys() == {"dataset_id", "resource_id", "version_id"}
    assert {"item_id", "layer_index", "version"} <= theirs.keys()
    assert ours["block_size"]["schema"] == {"type": "integer", "default": 512, "enum": [128, 256, 512, 1024]}


async def test_a_job_goes_from_accepted_to_its_results(platform: Platform) -> None:
    answer = await execute(platform, target_crs="EPSG:3857")
    accepted = answer.json()
    assert answer.status_code == 201
    assert answer.headers["preference-applied"] == "respond-async"
    assert ogc_shapes.faults(accepted, ogc_shapes.STATUS) == []
    assert (accepted["status"], accepted["processID"], accepted["progress"]) == ("accepted", "raster_ingest", 0)
    where = answer.headers["location"]
    early = await call(platform, "GET", f"{where}/results")
    assert early.status_code == 404
    assert early.json()["type"].endswith("/result-not-ready")

    flow = await started(platform.domain)
    running = await call(platform, "GET", where)
    assert (running.json()["status"], running.headers["retry-after"]) == ("running", "2")
    await flow.commit()
    done = (await call(platform, "GET", where)).json()
    assert ogc_shapes.faults(done, ogc_shapes.STATUS) == []
    assert (done["status"], done["progress"]) == ("successful", 100)
    [results] = [link["href"] for link in done["links"] if link["rel"].endswith("/results")]
    found = (await call(platform, "GET", results)).json()
    assert ogc_shapes.faults(found, ogc_shapes.RESULTS) == []
    assert found["outputs"] == {"value": OUTPUTS}
    assert found["approval"] == "pending_review"
    described = (await call(platform, "GET", RASTER)).json()
    assert found.keys() == described["outputs"].keys()


async def test_job_is_the_same_request_that_the_partner_api_shows(platform: Platform) -> None:
    job = (await execute(platform)).json()["jobID"]
    status = (await call(platform, "GET", f"/api/platform/status/{job}")).json()
    assert (status["request_id"], status["status"]) == (job, "pending")
    stored = platform.domain.rows("select submitted -> 'refs', submitted ->> 'version_label' from app.requests")
    assert stored == [({"dataset_id": "elevation", "resource_id": "dem"}, "1")]


async def test_repeated_execution_is_answered_with_the_first_job(platform: Platform) -> None:
    first, again = await execute(platform), await execute(platform)
    assert (first.status_code, again.status_code) == (201, 201)  # 200 would announce results
    assert first.headers["location"] == again.headers["location"]
    assert first.json()["jobID"] == again.json()["jobID"]
    assert platform.domain.rows("select count(*) from app.requests") == [(1,)]


async def test_failed_job_shows_its_problem(platform: Platform) -> None:
    where = (await execute(platform)).headers["location"]
    await (await started(platform.domain)).fail()
    job = (await call(platform, "GET", where)).json()
    assert (job["status"], job["message"]) == ("failed", "It is broken.")
    results = await call(platform, "GET", f"{where}/results")
    assert ogc_shapes.faults(results.json(), ogc_shapes.EXCEPTION) == []
    assert (results.status_code, results.json()["code"], results.json()["reason"]) == (
        422,
        "job-failed",
        "broken-raster",
    )


async def test_a_job_is_dismissed_once(platform: Platform) -> None:
    where = (await execute(platform)).headers["location"]
    dismissed = await call(platform, "DELETE", where)
    assert (dismissed.status_code, dismissed.json()["status"]) == (200, "dismissed")
    assert ogc_shapes.faults(dismissed.json(), ogc_shapes.STATUS) == []
    assert (await call(platform, "DELETE", where)).json()["status"] == "dismissed"
    assert (await call(platform, "GET", f"{where}/results")).status_code == 404
    finished = (await execute(platform, version_id="1", source="uploads/e.tif")).headers["location"]
    await (await started(platform.domain)).commit()
    assert (await call(platform, "DELETE", finished)).status_code == 409


async def test_jobs_are_listed_page_by_page_and_filtered(platform: Platform) -> None:
    made = [(await execute(platform, resource_id=f"r{number}")).json()["jobID"] for number in range(5)]
    vector = await execute(platform, "/ogc/processes/vector_ingest", resource_id="v", source="uploads/v.gpkg")
    newest_first = [vector.json()["jobID"], *reversed(made)]
    seen, where = [], "/ogc/jobs?limit=2"
    while where:
        page = (await call(platform, "GET", where)).json()
        assert ogc_shapes.faults(page, ogc_shapes.JOBS) == []
        seen += [job["jobID"] for job in page["jobs"]]
        where = next((link["href"] for link in page["links"] if link["rel"] == "next"), "")
    assert seen == newest_first
    await call(platform, "DELETE", f"/ogc/jobs/{made[0]}")
    for query, expected in {
        "status=dismissed": made[:1],
        "processID=vector_ingest": newest_first[:1],
        "status=accepted&status=dismissed": newest_first,
        "processID=nothing": [],
    }.items():
        found = (await call(platform, "GET", f"/ogc/jobs?{query}")).json()["jobs"]
        assert [job["jobID"] for job in found] == expected, query


async def test_another_partners_job_is_answered_404(platform: Platform) -> None:
    job = (await execute(platform)).json()["jobID"]
    for method, path in (("GET", ""), ("GET", "/results"), ("DELETE", "")):
        other = await call(platform, method, f"/ogc/jobs/{job}{path}", by="arcgis-dev")
        unknown_id = str(uuid4())
        unknown = await call(platform, method, f"/ogc/jobs/{unknown_id}{path}", by="arcgis-dev")
        assert (other.status_code, other.json()["type"].rpartition("/")[2]) == (404, "no-such-job")
        assert other.text.replace(job, "X") == unknown.text.replace(unknown_id, "X")
    assert (await call(platform, "GET", "/ogc/jobs", by="arcgis-dev")).json()["jobs"] == []
    assert platform.domain.rows("select status from app.requests") == [("pending",)]


async def test_every_ogc_route_is_for_partners_only(platform: Platform) -> None:
    for path in ("/ogc", "/ogc/conformance", "/ogc/processes", RASTER, "/ogc/jobs", f"/ogc/jobs/{uuid4()}"):
        for by, status in {None: 401, "nobody": 401, "worker": 403, "operator": 403}.items():
            assert (await call(platform, "GET", path, by=by)).status_code == status, (path, by)


async def test_no_answer_may_be_cached_for_other_callers(platform: Platform) -> None:
    """Keys come in a header that caches do not know: what they may keep they would give to the next caller."""
    where = (await execute(platform)).headers["location"]
    for path in ("/ogc", "/ogc/processes", RASTER, "/ogc/jobs", where):
        headers = (await call(platform, "GET", path)).headers
        assert headers["cache-control"] == "private, no-cache", path
        assert "X-API-Key" in headers["vary"]
    refused = await call(platform, "GET", f"{where}/results")
    assert (refused.status_code, refused.headers["cache-control"]) == (404, "no-store")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "inputs"),
    ({"inputs": INPUTS | {"colour": 1}}, "'colour' is not an input"),
    ({"inputs": INPUTS | {"block_size": 100}}, "block_size"),
    ({"inputs": INPUTS, "response": "raw"}, "response"),
    ({"inputs": INPUTS, "mode": "sync"}, "mode"),
    ({"inputs": INPUTS, "outputs": {"asset_id": {"transmissionMode": "reference"}}}, "transmissionMode"),
    ({"inputs": INPUTS, "subscriber": {"successUri": "http://169.254.169.254/"}}, ""),
    ({"inputs": INPUTS, "subscriber": {"inProgressUri": "https://a.test"}}, "successUri"),
]


async def test_invalid_execution_is_refused_with_its_reason(platform: Platform) -> None:
    for body, says in REFUSED:
        answer = await call(platform, "POST", f"{RASTER}/execution", json=body)
        assert answer.status_code == 422, body
        assert answer.headers["content-type"] == "application/problem+json"
        assert says in answer.json()["detail"]
    assert platform.domain.rows("select count(*) from app.requests") == [(0,)]


async def test_unknown_process_is_answered_404(platform: Platform) -> None:
    for method, path in (("GET", ""), ("POST", "/execution")):
        answer = await call(platform, method, f"/ogc/processes/bake_cake{path}", json={"inputs": INPUTS})
        assert answer.status_code == 404
        assert answer.json()["type"] == ("http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0/no-such-process")


async def test_no_answer_names_a_run_or_a_token(platform: Platform) -> None:
    where = (await execute(platform)).headers["location"]
    flow = await started(platform.domain)
    await flow.commit()
    for path in (where, f"{where}/results", "/ogc/jobs"):
        text = (await call(platform, "GET", path)).text
        assert not [secret for secret in (str(flow.run_id), flow.token, str(flow.flow_run_id)) if secret in text]
