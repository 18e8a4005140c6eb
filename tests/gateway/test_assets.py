"""Assets through the gateway: what a partner finds of its own, and what its named people may decide."""

from typing import Any

import pytest

from tests.gateway.world import BODY, Known, approved, call, processed, submitted
from tests.support.platform import Platform

REASON = {"reason": "no longer needed"}


async def decide(platform: Platform, known: Known, verb: str, client_id: str, **body: Any) -> tuple[int, str]:
    asked = {"request_id": known.request_id, **body}
    answer = await call(platform, client_id, "POST", f"/api/platform/{verb}", json=asked)
    return answer.status_code, answer.json().get("approval") or answer.json().get("code")


async def test_assets_are_found_by_reference_clearance_and_kind(platform: Platform) -> None:
    first = await processed(platform, resource_id="a")
    second = await approved(platform, resource_id="b")
    cases = [
        ({}, {first.asset_id, second.asset_id}),
        ({"ref": "resource_id=a"}, {first.asset_id}),
        ({"ref": [f"dataset_id={BODY['dataset_id']}", "resource_id=b"]}, {second.asset_id}),
        ({"ref": "resource_id=c"}, set()),
        ({"clearance": "ouo"}, {second.asset_id}),
        ({"data_type": "vector"}, set()),
    ]
    for query, found in cases:
        answer = await call(platform, "ddh-dev", "GET", "/api/assets", params=query)
        assert {one["asset_id"] for one in answer.json()["assets"]} == found, query
    page = (await call(platform, "ddh-dev", "GET", "/api/assets", params={"limit": 1})).json()
    rest = (await call(platform, "ddh-dev", "GET", "/api/assets", params={"after": page["next_after"]})).json()
    assert {page["assets"][0]["asset_id"], rest["assets"][0]["asset_id"]} == {first.asset_id, second.asset_id}
    refused = await call(platform, "ddh-dev", "GET", "/api/assets", params={"ref": "nonsense"})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-query")


async def test_version_shows_its_approval_and_processing(platform: Platform) -> None:
    known = await approved(platform)
    path = f"/api/assets/{known.asset_id}/versions"
    [listed] = (await call(platform, "ddh-dev", "GET", path)).json()["versions"]
    assert (await call(platform, "ddh-dev", "GET", f"{path}/0")).json() == listed
    assert (listed["approval"], listed["processing"], listed["served_revision"]) == ("approved", "completed", 1)
    assert (await call(platform, "ddh-dev", "GET", f"{path}/1")).status_code == 404


async def test_status_links_to_the_data_only_while_it_may_be_read(platform: Platform) -> None:
    known = await processed(platform)
    path = f"/api/platform/status/{known.request_id}"
    assert (await call(platform, "ddh-dev", "GET", path)).json()["result"]["links"] == []
    await decide(platform, known, "approve", "reviewer", clearance_level="ouo")
    links = (await call(platform, "ddh-dev", "GET", path)).json()["result"]["links"]
    assert {link["rel"] for link in links} == {"item", "tiles"}
    await decide(platform, known, "unpublish", "reviewer", **REASON)
    assert (await call(platform, "ddh-dev", "GET", path)).json()["result"]["links"] == []


async def test_partner_client_with_review_scope_decides_about_its_platforms_assets(platform: Platform) -> None:
    known = await processed(platform)
    who = "ddh-reviewer"
    assert await decide(platform, known, "approve", who, clearance_level="ouo") == (200, "approved")
    assert await decide(platform, known, "unpublish", who, **REASON) == (200, "pending_review")
    assert await decide(platform, known, "reject", who, **REASON) == (200, "rejected")
    asset = f"/api/assets/{known.asset_id}"
    any_state = {"If-Match": "*"}
    change = {"clearance_level": "public", "reason": "open data"}
    raised = await call(platform, who, "POST", f"{asset}/clearance", json=change, headers=any_state)
    assert (raised.status_code, raised.json()["clearance"]) == (200, "public")
    stale = await call(platform, who, "DELETE", asset, params=REASON, headers={"If-Match": '"1"'})
    assert (stale.status_code, stale.json()["code"]) == (412, "changed-meanwhile")
    missing = await call(platform, who, "DELETE", asset, params=REASON)
    assert (missing.status_code, missing.json()["code"]) == (428, "precondition-required")
    tag = {"If-Match": (await call(platform, who, "GET", asset)).headers["etag"]}
    assert (
        await call(platform, who, "DELETE", f"{asset}/versions/0", params=REASON, headers=any_state)
    ).status_code == 204
    assert (await call(platform, who, "DELETE", asset, params=REASON, headers=tag)).status_code == 204
    assert (await call(platform, who, "GET", asset)).status_code == 404


async def test_decision_by_the_submitter_is_refused(platform: Platform) -> None:
    accepted = await call(platform, "ddh-reviewer", "POST", "/api/platform/submit", json=BODY)
    request_id = accepted.json()["request_id"]
    [(asset_id,)] = platform.domain.rows("select asset_id from app.requests")
    platform.domain.rows("update app.revisions set processing = 'completed' returning 1")
    body = {"request_id": request_id, "clearance_level": "public"}
    answer = await call(platform, "ddh-reviewer", "POST", "/api/platform/approve", json=body)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    for method, below, more in (
        ("POST", "/clearance", {"json": {"clearance_level": "public", **REASON}}),
        ("DELETE", "/versions/0", {"params": REASON}),
        ("DELETE", "", {"params": REASON}),
    ):
        path = f"/api/assets/{asset_id}{below}"
        answer = await call(platform, "ddh-reviewer", method, path, headers={"If-Match": "*"}, **more)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), path


async def test_domain_checks_scope_and_platform_of_a_decision_itself(platform: Platform) -> None:
    """The gateway's own look is a courtesy: past it, the domain refuses the same."""
    known = await processed(platform)
    path = f"/api/v1/assets/{known.asset_id}/versions/0/approve"
    approve = {"revision": 1, "clearance_level": "public"}
    for client_id, status in (("ddh-dev", 403), ("arcgis-reviewer", 404), ("arcgis-dev", 403), ("ddh-reviewer", 200)):
        async with platform.domain.as_(client_id) as caller:
            assert (await caller.post(path, json=approve)).status_code == status, client_id


@pytest.mark.parametrize(("client_id", "status"), [("ddh-dev", 200), ("operator", 200), ("reviewer", 403)])
async def test_request_is_cancelled_by_its_own_partner_or_an_operator(
    platform: Platform, client_id: str, status: int
) -> None:
    known = await submitted(platform)
    for _ in range(2):
        answer = await call(platform, client_id, "POST", "/api/platform/cancel", json={"request_id": known.request_id})
        assert answer.status_code == status, answer.text
    told = (await call(platform, "ddh-dev", "GET", f"/api/platform/status/{known.request_id}")).json()
    assert told["status"] == ("cancelled" if status == 200 else "pending")


async def test_cancelling_an_ended_request_is_refused(platform: Platform) -> None:
    known = await processed(platform)
    answer = await call(platform, "ddh-dev", "POST", "/api/platform/cancel", json={"request_id": known.request_id})
    assert (answer.status_code, answer.json()["code"]) == (409, "already-finished")
