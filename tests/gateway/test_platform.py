"""What partners see: submit, status, and answers that give nothing away."""

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from tests.support.platform import Platform

BODY: dict[str, Any] = {
    "dataset_id": "elevation",
    "resource_id": "dem",
    "version_id": "2026-11",
    "data_type": "raster",
    "operation": "ingest",
    "source": "uploads/dem.tif",
}


async def submit(
    platform: Platform, client_id: str | None = "ddh-dev", key: str | None = None, **changes: Any
) -> httpx.Response:
    body = {name: value for name, value in (BODY | changes).items() if value is not None}
    async with platform.as_(client_id) as partner:
        return await partner.post("/api/platform/submit", json=body, headers={"Idempotency-Key": key} if key else {})


async def status(platform: Platform, request_id: str, client_id: str = "ddh-dev") -> httpx.Response:
    async with platform.as_(client_id) as partner:
        return await partner.get(f"/api/platform/status/{request_id}")


async def test_a_submission_is_accepted_in_the_partners_own_words(platform: Platform) -> None:
    answer = await submit(platform)
    accepted = answer.json()
    assert answer.status_code == 202
    assert str(UUID(accepted["request_id"])) == accepted["request_id"]
    assert accepted["status_url"] == answer.headers["location"] == f"/api/platform/status/{accepted['request_id']}"
    assert platform.domain.rows("select refs, (select label from app.asset_versions) from app.assets") == [
        ({"dataset_id": "elevation", "resource_id": "dem"}, "2026-11")
    ]


async def test_the_same_key_and_body_answer_with_the_first_request(platform: Platform) -> None:
    first = await submit(platform, key="k1")
    again = await submit(platform, key="k1")
    assert again.status_code == 200
    assert again.json()["request_id"] == first.json()["request_id"]
    assert again.json()["duplicate"] is True


async def test_status_tells_progress_and_no_internal_id(platform: Platform) -> None:
    request_id = (await submit(platform)).json()["request_id"]
    answer = await status(platform, request_id)
    assert answer.json()["status"] == "pending"
    progress = {"percent": 0, "nodes_done": 0, "nodes_total": 11, "items_done": 0, "items_total": 0}
    assert answer.json()["progress"] == progress
    named = {"dataset_id": "elevation", "resource_id": "dem", "version_id": "2026-11"}
    assert (answer.json()["identifies"], answer.json()["operation"]) == (named, "ingest")
    assert answer.headers["retry-after"] == "2"
    [(run_id, token)] = platform.domain.rows("select run_id, token from app.attempts")
    assert str(run_id) not in answer.text
    assert token not in answer.text


async def test_another_partners_request_looks_like_a_missing_one(platform: Platform) -> None:
    request_id = (await submit(platform)).json()["request_id"]
    nothing = await status(platform, str(uuid4()), "arcgis-dev")
    other = await status(platform, request_id, "arcgis-dev")
    assert (other.status_code, other.json()["code"]) == (404, "not-found")
    assert other.text.replace(request_id, "X") == nothing.text.replace(nothing.json()["detail"].split()[-1][:-1], "X")
    assert (await status(platform, request_id, "reviewer")).status_code == 200


# What only parts of the platform tell each other, by the names that it has there.
INNER = (
    "attempt_token", "token", "run_id", "flow_run_id", "job_id", "node_id", "node_ids", "nodes", "client_id",
    "asset_id", "ordinal", "revision", "segment", "outputs", "pins", "idempotency_key", "batch", "platform_id",
    "status",
)  # fmt: skip


async def test_internal_fields_in_a_body_are_refused(platform: Platform) -> None:
    """Neither beside what a call takes nor within it."""
    request_id = (await submit(platform)).json()["request_id"]
    body = {"dataset_id": "a", "resource_id": "b", "version_id": "1", "data_type": "raster", "operation": "ingest"}
    good = body | {"source": "uploads/a.tif"}
    async with platform.as_("ddh-dev") as partner:
        for name in INNER:
            for path, sent in (
                ("/api/platform/submit", good | {name: "x"}),
                ("/api/platform/submit", good | {"parameters": {name: "x"}}),
                ("/api/platform/cancel", {"request_id": request_id, name: "x"}),
                ("/api/gateway/submit/batch", {"submissions": [{"submission": good}], name: "x"}),
                ("/api/gateway/submit/batch", {"submissions": [{"submission": good, f"{name}s": "x"}]}),
            ):
                answer = await partner.post(path, json=sent)
                assert answer.status_code == 422, (path, name, answer.text)
            batch = {"submissions": [{"submission": good | {name: "x"}}]}
            told = (await partner.post("/api/gateway/submit/batch", json=batch)).json()
            assert f"'{name}' is not a field" in told["results"][0]["problem"]["detail"]
    assert platform.domain.rows("select status from app.requests") == [("pending",)]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"resource_id": None}, "'resource_id' is missing"),
        ({"version_id": None}, "'version_id' is missing"),
        ({"flow_run_id": "x"}, "'flow_run_id' is not a field of a ddh submission"),
        ({"platform_id": "arcgis"}, "'platform_id' is not a field"),
        ({"status": "completed"}, "'status' is not a field"),
        ({"attempt_token": "x"}, "'attempt_token' is not a field"),
        ({"run_id": str(uuid4()), "node_ids": ["a"]}, "'node_ids' is not a field"),
        ({"data_type": "audio"}, "data_type"),
        ({"dataset_id": {"$ne": 1}}, "dataset_id"),
        ({"version_id": ""}, "version_id"),
        ({"parameters": {"colour": "red"}}, "colour"),
        ({"operation": "dance"}, "raster/ingest"),
    ],
)
async def test_invalid_submission_is_refused_in_the_partners_words(
    platform: Platform, changes: dict[str, Any], says: str
) -> None:
    answer = await submit(platform, **changes)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert says in answer.json()["detail"]
    assert platform.domain.rows("select count(*) from app.requests") == [(0,)]


@pytest.mark.parametrize(("client_id", "code"), [(None, 401), ("nobody", 401), ("reviewer", 403), ("worker", 403)])
async def test_submission_by_a_client_that_is_no_partner_is_refused(
    platform: Platform, client_id: str | None, code: int
) -> None:
    assert (await submit(platform, client_id)).status_code == code


async def test_approval_by_a_partner_is_refused(platform: Platform) -> None:
    request_id = (await submit(platform)).json()["request_id"]
    async with platform.as_("ddh-dev") as partner:
        answer = await partner.post(
            "/api/platform/approve", json={"request_id": request_id, "clearance_level": "public"}
        )
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert platform.domain.rows("select approval from app.revisions") == [("pending_review",)]


async def test_approval_of_an_unprocessed_version_is_refused(platform: Platform) -> None:
    request_id = (await submit(platform)).json()["request_id"]
    async with platform.as_("reviewer") as reviewer:
        answer = await reviewer.post("/api/platform/approve", json={"request_id": request_id, "clearance_level": "ouo"})
    assert (answer.status_code, answer.json()["code"]) == (409, "not-reviewable")


async def test_a_body_that_grows_too_large_is_cut_off(platform: Platform) -> None:
    async with platform.as_("ddh-dev") as partner:
        answer = await partner.post("/api/platform/submit", content=b'{"source": "' + b"x" * 1_100_000 + b'"}')
    assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")


async def test_health_says_whether_submissions_would_be_taken(platform: Platform) -> None:
    async with platform.as_(None) as anybody:
        assert (await anybody.get("/api/gateway/health")).json() == {"gateway": "ok", "domain": "ok"}
        assert (await anybody.get("/api/readyz")).status_code == 200
        assert (await anybody.get("/nowhere")).json()["code"] == "not-found"


async def test_data_is_answered_503_while_serving_is_away(platform: Platform) -> None:
    async with platform.as_(None) as anybody:
        answer = await anybody.get("/tiles/some-asset/info")
    assert (answer.status_code, answer.json()["code"]) == (503, "temporarily-unavailable")
