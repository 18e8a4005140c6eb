"""Approvals of several people: how many it takes, whose content they are about, and how they end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest

from domain.loops.approval_expiry import ApprovalExpiry
from domain.security import secret_hash
from tests.support.acts import OUTPUTS, approved, call, decide, keep_words, processed, started
from tests.support.platform import Domain

WORDS = {"title": "Elevation", "keywords": ["dem"], "license": "CC-BY-4.0"}


@pytest.fixture
def two_needed(domain: Domain) -> None:
    """The platform asks for two; there is a second reviewer."""
    domain.rows("update app.platforms set approvals_required = 2 where platform_id = 'ddh' returning 1")
    domain.rows(
        "insert into app.clients (client_id, role, display_name, secret_hash) values ('second', 'reviewer', '', %s)"
        " returning 1",
        secret_hash("secret-second"),
    )


async def withdraw(domain: Domain, asset_id: str, by: str = "reviewer") -> httpx.Response:
    body = {"revision": 1, "reason": "second thoughts"}
    return await call(domain, by, "POST", f"/assets/{asset_id}/versions/0/withdraw", body)


def served(domain: Domain) -> Any:
    return domain.rows("select served_revision from app.asset_versions")[0][0]


def endings_of(domain: Domain) -> ApprovalExpiry:
    return ApprovalExpiry(domain.service, 1)


def let_them_end(domain: Domain) -> None:
    """Every approval's moment has come."""
    for table, column in (("approvals", "expires_at"), ("revisions", "approved_until")):
        domain.rows(f"update app.{table} set {column} = now() - interval '1 s' returning 1")  # noqa: S608


def order(domain: Domain, command: str) -> None:
    with psycopg.connect(domain.database.url()) as connection:
        connection.execute(command.encode())


@pytest.mark.usefixtures("two_needed")
async def test_a_revision_is_served_once_enough_people_approve(domain: Domain) -> None:
    asset_id = await processed(domain)
    first = (await decide(domain, asset_id, 0, "approve", clearance_level="public")).json()
    assert (first["approval"], first["approvals"], first["approvals_required"]) == ("pending_review", 1, 2)
    assert (served(domain), first["clearance"]) == (None, "uncleared")
    again = await decide(domain, asset_id, 0, "approve")
    assert (again.status_code, again.json()["code"]) == (409, "not-reviewable")
    last = (await decide(domain, asset_id, 0, "approve", by="second", clearance_level="ouo")).json()
    assert (last["approval"], last["latest_ordinal"], last["clearance"]) == ("approved", 0, "ouo")
    listed = (await call(domain, "operator", "GET", f"/assets/{asset_id}/versions/0/approvals")).json()
    assert [(one["reviewer"], one["content_hash"]) for one in listed] == [("reviewer", "f" * 64), ("second", "f" * 64)]
    kinds = domain.rows("select kind from app.events where kind like 'revision.%%' order by event_id")
    assert kinds == [("revision.approval_given",), ("revision.approved",)]


@pytest.mark.usefixtures("two_needed")
async def test_an_approval_taken_back_no_longer_counts(domain: Domain) -> None:
    asset_id = await processed(domain)
    await decide(domain, asset_id, 0, "approve")
    assert (await withdraw(domain, asset_id, by="second")).status_code == 409
    assert (await withdraw(domain, asset_id)).json()["approvals"] == 0
    assert (await decide(domain, asset_id, 0, "approve", by="second")).json()["approval"] == "pending_review"
    assert (await decide(domain, asset_id, 0, "approve")).json()["approval"] == "approved"
    taken = (await withdraw(domain, asset_id, by="second")).json()
    assert (taken["approval"], taken["latest_ordinal"], served(domain)) == ("pending_review", None, None)
    assert (await decide(domain, asset_id, 0, "approve", by="second")).json()["approval"] == "approved"


@pytest.mark.usefixtures("two_needed")
@pytest.mark.parametrize("verb", ["reject", "unpublish"])
async def test_a_decision_against_a_revision_voids_its_approvals(domain: Domain, verb: str) -> None:
    asset_id = await processed(domain)
    await decide(domain, asset_id, 0, "approve")
    if verb == "unpublish":
        await decide(domain, asset_id, 0, "approve", by="second")
    assert (await decide(domain, asset_id, 0, verb)).json()["approvals"] == 0
    assert domain.rows("select count(*) from app.approvals where withdrawn_at is null") == [(0,)]


@pytest.mark.usefixtures("two_needed")
async def test_approval_counts_only_for_the_content_it_was_given_to(domain: Domain) -> None:
    asset_id = await processed(domain)
    other = await decide(domain, asset_id, 0, "approve", content_hash="a" * 64)
    assert (other.status_code, other.json()["code"]) == (412, "stale-revision")
    assert (await decide(domain, asset_id, 0, "approve", content_hash="f" * 64)).json()["approvals"] == 1
    domain.rows("update app.revisions set content_hash = %s returning 1", "b" * 64)
    assert (await decide(domain, asset_id, 0, "approve", by="second")).json()["approvals"] == 1
    assert (await decide(domain, asset_id, 0, "approve")).json()["approval"] == "approved"


@pytest.mark.usefixtures("two_needed")
@pytest.mark.parametrize("outputs", [OUTPUTS, {}], ids=["the source's hash is known", "it is not"])
async def test_product_made_anew_has_no_earlier_approval(domain: Domain, outputs: dict[str, Any]) -> None:
    asset_id = await processed(domain)
    source = outputs.get("validation", {}).get("sha256")
    domain.rows("update app.revisions set content_hash = %s returning 1", source)
    await decide(domain, asset_id, 0, "approve")
    [(run_id, seen)] = domain.rows("select run_id, lock_version from app.runs, app.asset_versions")
    again = {"scope": "all", "definition": "current"}
    assert (await call(domain, "operator", "POST", f"/runs/{run_id}/rerun", again)).is_success
    assert (await (await started(domain)).commit(outputs)).is_success
    assert domain.rows("select content_hash from app.revisions") == [(source,)]
    path, body = f"/assets/{asset_id}/versions/0/approve", {"revision": 1, "clearance_level": "ouo"}
    stale = await call(domain, "second", "POST", path, body, headers={"If-Match": f'"{seen}"'})
    assert (stale.status_code, stale.json()["code"]) == (412, "changed-meanwhile")
    assert domain.rows("select reviewer, withdrawn_reason from app.approvals where withdrawn_at is not null") == [
        ("reviewer", "It was processed again.")
    ]
    assert (await decide(domain, asset_id, 0, "approve", by="second")).json()["approvals"] == 1
    assert (await decide(domain, asset_id, 0, "approve")).json()["approval"] == "approved"


@pytest.mark.usefixtures("two_needed")
async def test_clearance_beyond_what_approvals_agree_to_is_refused(domain: Domain) -> None:
    asset_id = await processed(domain)

    async def cleared(level: str) -> tuple[int, str]:
        body = {"clearance_level": level, "reason": "because"}
        path, headers = f"/assets/{asset_id}/clearance", {"If-Match": "*"}
        answer = (await call(domain, "reviewer", "POST", path, body, headers=headers)).json()
        return answer.get("status", 200), answer.get("detail", level)

    assert "agree to 'uncleared'" in (await cleared("ouo"))[1]  # nothing is served
    for reviewer in ("reviewer", "second"):
        await decide(domain, asset_id, 0, "approve", by=reviewer)
    status, says = await cleared("public")
    assert (status, "agree to 'ouo'. Have 2 reviewers approve" in says) == (422, True)
    for level in ("uncleared", "ouo", "ouo"):
        assert await cleared(level) == (200, level)
    await decide(domain, asset_id, 0, "unpublish")
    for reviewer in ("reviewer", "second"):
        await decide(domain, asset_id, 0, "approve", by=reviewer, clearance_level="public")
    for level in ("uncleared", "public"):
        assert await cleared(level) == (200, level)
    assert domain.rows("select clearance from app.assets") == [("public",)]


async def test_approval_ends_at_its_date(domain: Domain) -> None:
    past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    asset_id = await processed(domain)
    refused = await decide(domain, asset_id, 0, "approve", expires_at=past)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-decision")
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    await decide(domain, asset_id, 0, "approve", expires_at=soon)
    assert (await endings_of(domain).sweep(), served(domain)) == (0, 1)
    let_them_end(domain)
    assert (await endings_of(domain).sweep(), served(domain)) == (1, None)
    assert await endings_of(domain).sweep() == 0
    assert domain.rows("select approval, approved_until, decided_by from app.revisions") == [
        ("pending_review", None, "cairn-domain")
    ]
    assert domain.rows("select count(*) from app.audit where action = 'approval.end'") == [(1,)]
    assert (await decide(domain, asset_id, 0, "approve")).json()["approval"] == "approved"


async def test_approval_that_cannot_be_ended_does_not_hold_up_others(domain: Domain) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    names = [{"dataset_id": name, "resource_id": "dem"} for name in ("first", "second")]
    assets = [await processed(domain, refs=refs) for refs in names]
    for asset_id in assets:
        assert (await decide(domain, asset_id, 0, "approve", expires_at=soon)).status_code == 200
    let_them_end(domain)
    held = f"(asset_id <> '{assets[0]}' or served_revision is not null)"
    order(domain, f"alter table app.asset_versions add constraint held check {held}")
    still = "select asset_id from app.asset_versions where served_revision is not null"
    assert (await endings_of(domain).sweep(), domain.rows(still)) == (1, [(assets[0],)])
    order(domain, "alter table app.asset_versions drop constraint held")
    assert (await endings_of(domain).sweep(), domain.rows(still)) == (1, [])


async def test_a_platform_may_say_how_long_approvals_hold(domain: Domain) -> None:
    domain.rows("update app.platforms set approval_days = 30 where platform_id = 'ddh' returning 1")
    await approved(domain)
    lasts = "select approved_until - decided_at between interval '29 days' and interval '31 days' from app.revisions"
    assert domain.rows(lasts) == [(True,)]


async def test_approval_rules_are_registered_with_their_platform(domain: Domain) -> None:
    facts = {"platform_id": "hub", "display_name": "Hub", "required_refs": ["a"], "version_ref": "v"}
    for required, status in ((2, 200), (0, 422)):
        body = {**facts, "approvals_required": required, "approval_days": 90}
        assert (await call(domain, "admin", "POST", "/commands/platform.register", body)).status_code == status
    listed = (await call(domain, "admin", "GET", "/platforms")).json()
    hub = next(platform for platform in listed if platform["platform_id"] == "hub")
    assert (hub["approvals_required"], hub["approval_days"]) == (2, 90)


async def test_second_of_two_concurrent_metadata_edits_is_refused(domain: Domain) -> None:
    asset_id = await processed(domain)
    path = f"/assets/{asset_id}"
    read = (await call(domain, "reviewer", "GET", path)).headers["ETag"]
    assert (await call(domain, "reviewer", "PUT", f"{path}/metadata", WORDS)).status_code == 428
    assert (await keep_words(domain, asset_id, WORDS, if_match=read)).status_code == 200
    assert (await keep_words(domain, asset_id, WORDS | {"title": "Depth"}, if_match=read)).status_code == 412
    kept = await call(domain, "reviewer", "GET", f"{path}/metadata")
    assert kept.json()["title"] == "Elevation"
    assert (await keep_words(domain, asset_id, WORDS, if_match=kept.headers["ETag"])).status_code == 200


async def test_layer_catalogue_entry_appears_and_leaves_with_the_approval(domain: Domain) -> None:
    asset_id = await processed(domain)
    path = f"/assets/{asset_id}/metadata"
    assert (await call(domain, "reviewer", "GET", path)).status_code == 404
    assert (await keep_words(domain, asset_id, WORDS, by="operator")).status_code == 403
    assert (await keep_words(domain, asset_id, WORDS)).status_code == 200
    published = "select content ->> 'title', published_by from app.layer_catalog"
    assert domain.rows(published) == []
    await decide(domain, asset_id, 0, "approve")
    assert domain.rows(published) == [("Elevation", "reviewer")]
    await call(domain, "operator", "POST", "/commands/metadata.unpublish", {"asset_id": asset_id})
    await approved(domain, "2")
    assert domain.rows(published) == []  # whoever took the words back is not overruled by another version
    for ordinal in (0, 1):
        await decide(domain, asset_id, ordinal, "unpublish")
    await decide(domain, asset_id, 0, "approve")
    assert domain.rows(published) == [("Elevation", "reviewer")]
    await decide(domain, asset_id, 0, "unpublish")
    assert domain.rows(published) == []
    assert (await call(domain, "reviewer", "GET", path)).json()["title"] == "Elevation"
