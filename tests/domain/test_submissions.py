"""Submitting: accepted once, recognised again, refused with a sentence."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.acts import approved, call, decide, started, submit
from tests.support.platform import Domain, submission


async def test_a_submission_leaves_everything_that_its_run_needs(domain: Domain) -> None:
    body = submission()
    answer = await submit(domain, **body)
    assert answer.status_code == 202
    told = {"status": "pending", "duplicate": False, "priority": "normal"}
    assert answer.json() == {"request_id": body["request_id"], **told}
    assert domain.rows("select platform_id, refs->>'resource_id', clearance from app.assets") == [
        ("ddh", "dem", "uncleared")
    ]
    assert domain.rows("select ordinal, label, newest_revision, served_revision from app.asset_versions") == [
        (0, "1", 1, None)
    ]
    [(workflow, state, inputs)] = domain.rows("select workflow_id, state, inputs from app.runs")
    assert (workflow, state, inputs["source"], inputs["target_crs"]) == (
        "raster_ingest",
        "pending",
        "uploads/dem.tif",
        "EPSG:4326",
    )
    assert domain.rows("select number, state from app.attempts") == [(1, "ready")]
    nodes = [name for (name,) in domain.rows("select node_id from app.run_nodes order by position")]
    assert nodes == [
        "start", "fetch", "validate", "plan", "make_cog", "tiles", "tiled", "join", "discard", "register", "end",
    ]  # fmt: skip
    kinds = [kind for (kind,) in domain.rows("select kind from app.events order by event_id")]
    assert kinds == ["request.accepted", "run.queued"]


async def test_the_same_request_id_is_answered_with_the_same_request(domain: Domain) -> None:
    body = submission()
    await submit(domain, **body)
    again = await submit(domain, **body)
    assert (again.status_code, again.json()["request_id"]) == (200, body["request_id"])
    assert domain.rows("select count(*) from app.runs") == [(1,)]


async def test_an_equal_submission_in_flight_is_a_duplicate(domain: Domain) -> None:
    first = (await submit(domain)).json()["request_id"]
    again = await submit(domain)
    assert again.status_code == 200
    assert again.json() == {"request_id": first, "status": "pending", "duplicate": True, "priority": "normal"}


async def test_idempotency_key_with_another_body_is_refused(domain: Domain) -> None:
    await submit(domain, idempotency_key="k", request_id=str(uuid4()))
    answer = await submit(domain, idempotency_key="k", request_id=str(uuid4()), source="uploads/other.tif")
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency-key-reused")


async def test_idempotency_key_of_a_duplicate_stands_for_its_request(domain: Domain) -> None:
    first = await submit(domain, idempotency_key="k1")
    again = await submit(domain, idempotency_key="k2")
    assert (again.status_code, again.json()["request_id"]) == (200, first.json()["request_id"])
    other = await submit(domain, idempotency_key="k2", source="uploads/other.tif")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency-key-reused")
    await (await started(domain)).fail()
    replayed = await submit(domain, idempotency_key="k2")
    assert (replayed.status_code, replayed.json()["request_id"]) == (200, first.json()["request_id"])
    assert domain.rows("select count(*) from app.requests") == [(1,)]


async def test_data_type_of_an_asset_cannot_change_while_it_has_versions(domain: Domain) -> None:
    asset_id = await approved(domain)
    vector = {"data_type": "vector", "version_label": "2", "source": "uploads/dem.gpkg"}
    refused = await submit(domain, **vector)
    assert refused.status_code == 422
    assert "The asset of these references is a raster, and this is a vector." in refused.json()["detail"]
    assert (await decide(domain, asset_id, 0, "unpublish")).is_success
    await call(domain, "reviewer", "DELETE", f"/assets/{asset_id}?reason=renewed", headers={"If-Match": "*"})
    accepted = await submit(domain, **vector)
    assert accepted.status_code == 202, accepted.text
    assert domain.rows("select data_type, deleted_at is null from app.assets") == [("vector", True)]


async def test_racing_bodies_with_one_key_keep_the_first(domain: Domain) -> None:
    refs = [{"dataset_id": "elevation", "resource_id": f"dem-{number}"} for number in range(20)]
    answers = await asyncio.gather(*(submit(domain, idempotency_key="k", refs=one) for one in refs))
    assert sorted(answer.status_code for answer in answers) == [202] + [422] * 19
    assert domain.rows("select (select count(*) from app.requests), (select count(*) from app.assets)") == [(1, 1)]


async def test_one_of_several_racing_submissions_with_one_id_is_taken(domain: Domain) -> None:
    refs = [{"dataset_id": "elevation", "resource_id": f"dem-{number}"} for number in range(20)]
    same_id = str(uuid4())
    answers = await asyncio.gather(*(submit(domain, request_id=same_id, refs=one) for one in refs))
    assert sorted(answer.status_code for answer in answers) == [202] + [409] * 19
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"request-id-taken"}
    assert domain.rows("select (select count(*) from app.requests), (select count(*) from app.assets)") == [(1, 1)]


async def test_a_request_id_that_was_used_for_something_else_is_refused(domain: Domain) -> None:
    first = (await submit(domain)).json()["request_id"]
    answer = await submit(domain, request_id=first, source="uploads/other.tif")
    assert (answer.status_code, answer.json()["code"]) == (409, "request-id-taken")


async def test_two_platforms_may_use_the_same_key(domain: Domain) -> None:
    await submit(domain, idempotency_key="k")
    other = await submit(
        domain,
        idempotency_key="k",
        platform_id="arcgis",
        client_id="arcgis-dev",
        refs={"item_id": "a", "layer_index": "0"},
    )
    assert other.status_code == 202
    assert domain.rows("select count(*) from app.requests") == [(2,)]


async def test_concurrent_equal_submissions_make_one_request(domain: Domain) -> None:
    answers = await asyncio.gather(*(submit(domain) for _ in range(20)))
    assert sorted({answer.status_code for answer in answers}) == [200, 202]
    assert len({answer.json()["request_id"] for answer in answers}) == 1
    assert domain.rows("select (select count(*) from app.requests), (select count(*) from app.runs)") == [(1, 1)]


async def test_other_content_under_the_same_label_is_a_resubmission(domain: Domain) -> None:
    first = (await submit(domain)).json()["request_id"]
    second = await submit(domain, source="uploads/better.tif")
    assert second.status_code == 202
    assert domain.rows("select revision from app.revisions order by revision") == [(1,), (2,)]
    assert domain.rows("select status from app.requests where request_id = %s", first) == [("cancelled",)]
    assert domain.rows("select state from app.attempts order by created_at") == [("fenced",), ("ready",)]


async def test_a_new_version_waits_for_the_one_before(domain: Domain) -> None:
    await submit(domain)
    answer = await submit(domain, version_label="2")
    assert (answer.status_code, answer.json()["code"]) == (409, "version-blocked")
    assert answer.json()["blocking_version"] == "1"
    assert answer.json()["ways"] == ["wait", "resubmit", "ask"]


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"data_type": "vector", "operation": "ingest_tiled"}, "no-workflow", "raster/ingest"),
        ({"refs": {"dataset_id": "a"}}, "invalid-submission", "resource_id is missing"),
        (
            {"refs": {"dataset_id": "a", "resource_id": "b", "colour": "red"}},
            "invalid-submission",
            "colour is not a reference of this platform",
        ),
        ({"parameters": {"target_crs": "WGS84"}}, "invalid-submission", "target_crs"),
        ({"parameters": {"colour": "red"}}, "invalid-submission", "colour"),
        ({"parameters": {"source": "x/y"}}, "invalid-submission", "`source`"),
        ({"source": "/vsicurl/https://example.org/a.tif"}, "invalid-submission", "is not a blob name"),
        ({"source": "/etc/passwd"}, "invalid-submission", "is not a blob name"),
        ({"source": "https://example.org/a.tif"}, "invalid-submission", "addresses are not fetched"),
        ({"status": "completed"}, "malformed-request", "status"),
    ],
)
async def test_invalid_submission_is_refused_with_a_sentence(
    domain: Domain, changes: dict[str, Any], code: str, says: str
) -> None:
    answer = await submit(domain, **changes)
    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert says in answer.json()["detail"]
    assert domain.rows("select count(*) from app.requests") == [(0,)]


async def test_an_unknown_platform_is_not_found(domain: Domain) -> None:
    answer = await submit(domain, platform_id="nobody")
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


@pytest.mark.parametrize("client_id", ["ddh-dev", "reviewer", "operator", "worker"])
async def test_submission_by_any_client_but_the_gateway_is_refused(domain: Domain, client_id: str) -> None:
    async with domain.as_(client_id) as caller:
        answer = await caller.post("/api/v1/submit", json=submission())
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_submission_without_a_credential_is_refused(domain: Domain) -> None:
    async with httpx.AsyncClient(transport=domain.transport, base_url="http://domain") as nobody:
        answer = await nobody.post("/api/v1/submit", json=submission())
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


async def folders(domain: Domain, *prefixes: str) -> None:
    """Register ddh anew, with these folders of bronze."""
    body = {
        "platform_id": "ddh",
        "display_name": "DDH",
        "required_refs": ["dataset_id", "resource_id"],
        "version_ref": "version_id",
        "source_prefixes": list(prefixes),
    }
    answer = await call(domain, "operator", "POST", "/commands/platform.register", body)
    assert answer.status_code == 200, answer.text


FOREIGN = [
    "uploads/arcgis/roofs.tif",
    "quarantine/5f0c/1.tif",
    "uploads/ddhx/roofs.tif",
    "roofs.tif",
    "other/ddh/a.tif",
]


@pytest.mark.parametrize("source", FOREIGN)
async def test_refusal_of_a_source_in_anothers_folder_hides_whether_it_exists(domain: Domain, source: str) -> None:
    await folders(domain, "uploads/ddh/", "shared/maps/")
    absent = await submit(domain, source=source)
    domain.service.zones.bronze.write_bytes(source, b"another's")
    present = await submit(domain, source=source)
    told = [(answer.status_code, answer.json()["code"], answer.json()["detail"]) for answer in (absent, present)]
    assert told[0] == told[1]
    assert told[0][:2] == (422, "invalid-submission")
    assert domain.rows("select count(*) from app.requests") == [(0,)]
    for number, own in enumerate(("uploads/ddh/dem.tif", "shared/maps/a/b.tif")):
        refs = {"dataset_id": "own", "resource_id": str(number)}
        assert (await submit(domain, source=own, refs=refs)).status_code == 202


async def test_platform_registered_without_folders_gets_its_own_and_with_an_empty_list_none(
    domain: Domain,
) -> None:
    body = {"platform_id": "ddh", "display_name": "DDH", "required_refs": ["dataset_id", "resource_id"]}
    command, body = "/commands/platform.register", body | {"version_ref": "version_id"}
    for said, folders_of_it in (({}, ["uploads/ddh/"]), ({"source_prefixes": []}, [])):
        assert (await call(domain, "operator", "POST", command, body | said)).is_success
        [(kept,)] = domain.rows("select source_prefixes from app.platforms where platform_id = 'ddh'")
        assert kept == folders_of_it
        for number, source in enumerate(("uploads/ddh/dem.tif", "uploads/arcgis/dem.tif", "dem.tif")):
            answer = await submit(domain, source=source, refs={"dataset_id": str(said), "resource_id": str(number)})
            allowed = [202] if source.startswith("uploads/ddh/") and folders_of_it else [422]
            assert [answer.status_code] == allowed, source


@pytest.mark.parametrize("source", ["quarantine/5f0c/1.tif", "Quarantine/5f0c/1.tif"])
async def test_source_in_a_folder_of_runs_is_refused(domain: Domain, source: str) -> None:
    for prefixes in ((), ("quarantine/",)):
        await folders(domain, *prefixes)
        refused = await submit(domain, source=source)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid-submission")
    await folders(domain, "anywhere/")
    assert (await submit(domain, source="anywhere/else.tif")).status_code == 202


@pytest.mark.parametrize("prefix", ["uploads", "/uploads/", "uploads//", "../", "a/../b/", "u*/", ""])
async def test_malformed_source_folder_is_refused(domain: Domain, prefix: str) -> None:
    body = {"platform_id": "acme", "display_name": "A", "required_refs": ["a"], "version_ref": "v"}
    command = "/commands/platform.register"
    answer = await call(domain, "operator", "POST", command, body | {"source_prefixes": [prefix]})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-command")
