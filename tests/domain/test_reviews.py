"""Deciding: what an approval moves, what it never moves, and who may decide about what."""

import asyncio

import pytest

from tests.support.acts import approved, decide, processed, started, submit
from tests.support.platform import Domain


def served(domain: Domain) -> list[tuple[object, ...]]:
    return domain.rows("select ordinal, served_revision, newest_revision from app.asset_versions order by ordinal")


async def test_an_approval_serves_the_revision_and_clears_the_asset(domain: Domain) -> None:
    asset_id = await processed(domain)
    answer = await decide(domain, asset_id, 0, "approve", clearance_level="ouo")
    assert answer.json() == {
        "asset_id": asset_id,
        "ordinal": 0,
        "revision": 1,
        "approval": "approved",
        "clearance": "ouo",
        "latest_ordinal": 0,
        "approvals": 1,
        "approvals_required": 1,
    }
    assert domain.rows("select clearance, cleared_by, made_public_by from app.assets") == [("ouo", "reviewer", None)]
    assert domain.rows("select approval, decided_by from app.revisions") == [("approved", "reviewer")]
    assert domain.rows("select actor from app.events where kind = 'revision.approved'") == [("reviewer",)]


async def test_a_rejection_needs_a_reason_and_serves_nothing(domain: Domain) -> None:
    asset_id = await processed(domain)
    assert (await decide(domain, asset_id, 0, "reject", reason="")).status_code == 422
    answer = await decide(domain, asset_id, 0, "reject", reason="wrong place")
    assert (answer.json()["approval"], answer.json()["latest_ordinal"]) == ("rejected", None)
    assert domain.rows("select reason from app.revisions") == [("wrong place",)]
    assert served(domain) == [(0, None, 1)]


async def test_decision_by_the_submitter_is_refused(domain: Domain) -> None:
    asset_id = await processed(domain)
    domain.rows("update app.clients set role = 'reviewer' where client_id = 'ddh-dev' returning 1")
    answer = await decide(domain, asset_id, 0, "approve", by="ddh-dev")
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_submitter_cannot_raise_the_clearance_by_approving_another_version(domain: Domain) -> None:
    asset_id = await approved(domain, "1")
    domain.rows("update app.clients set role = 'reviewer' where client_id = 'ddh-dev' returning 1")
    await processed(domain, version_label="2", source="uploads/2.tif")
    domain.rows(
        "update app.requests set client_id = 'arcgis-dev' where asset_id = %s and ordinal = 1 returning 1", asset_id
    )
    raising = await decide(domain, asset_id, 1, "approve", by="ddh-dev", clearance_level="public")
    assert (raising.status_code, raising.json()["detail"]) == (403, "Whoever submitted data cannot decide about it.")
    assert domain.rows("select clearance from app.assets") == [("ouo",)]
    assert (await decide(domain, asset_id, 1, "approve", by="ddh-dev", clearance_level="ouo")).status_code == 200


@pytest.mark.parametrize("caller", ["ddh-dev", "operator", "worker", "gateway"])
async def test_decision_by_a_client_that_is_no_reviewer_is_refused(domain: Domain, caller: str) -> None:
    asset_id = await processed(domain)
    for verb in ("approve", "reject"):
        assert (await decide(domain, asset_id, 0, verb, by=caller)).status_code == 403


async def test_decision_about_an_unprocessed_version_is_refused(domain: Domain) -> None:
    await submit(domain)
    [(asset_id,)] = domain.rows("select asset_id from app.assets")
    answer = await decide(domain, asset_id, 0, "approve")
    assert (answer.status_code, answer.json()["code"]) == (409, "not-reviewable")


async def test_a_decision_about_a_replaced_revision_is_stale(domain: Domain) -> None:
    asset_id = await processed(domain)
    await processed(domain, source="uploads/better.tif")
    answer = await decide(domain, asset_id, 0, "approve", revision=1)
    assert (answer.status_code, answer.json()["code"]) == (412, "stale-revision")
    assert (await decide(domain, asset_id, 0, "approve", revision=2)).status_code == 200


async def test_a_second_decision_is_refused(domain: Domain) -> None:
    asset_id = await approved(domain)
    assert (await decide(domain, asset_id, 0, "reject")).status_code == 409


async def test_one_of_several_racing_decisions_is_taken(domain: Domain) -> None:
    asset_id = await processed(domain)
    verbs = ["approve", "reject"] * 10
    answers = await asyncio.gather(*(decide(domain, asset_id, 0, verb) for verb in verbs))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 19
    assert domain.rows("select count(*) from app.events where kind like 'revision.%%'") == [(1,)]


async def test_approving_never_lowers_a_clearance(domain: Domain) -> None:
    asset_id = await approved(domain, "1", clearance_level="public")
    await approved(domain, "2", clearance_level="ouo")
    assert domain.rows("select clearance, made_public_by from app.assets") == [("public", "reviewer")]
    assert served(domain) == [(0, 1, 1), (1, 1, 1)]
    assert domain.rows("select count(*) from app.assets") == [(1,)]
    assert asset_id


async def test_a_resubmission_stages_beside_what_is_served(domain: Domain) -> None:
    asset_id = await approved(domain)
    await submit(domain, source="uploads/better.tif")
    assert served(domain) == [(0, 1, 2)]
    flow = await started(domain)
    await flow.commit()
    assert (await decide(domain, asset_id, 0, "reject", revision=2)).json()["latest_ordinal"] == 0
    assert served(domain) == [(0, 1, 2)]
    assert domain.rows("select revision, approval from app.revisions order by 1") == [
        (1, "approved"),
        (2, "rejected"),
    ]


async def test_a_staged_revision_holds_no_new_version_back(domain: Domain) -> None:
    """The order rule reads what is approved."""
    await approved(domain)
    await submit(domain, source="uploads/better.tif")
    assert (await submit(domain, version_label="2")).status_code == 202


async def test_latest_is_the_highest_approved_version(domain: Domain) -> None:
    asset_id = await approved(domain, "b")
    await processed(domain, version_label="a")
    assert (await decide(domain, asset_id, 1, "approve")).json()["latest_ordinal"] == 1
    await processed(domain, version_label="c")
    assert (await decide(domain, asset_id, 2, "reject")).json()["latest_ordinal"] == 1


async def test_a_missing_version_is_not_found(domain: Domain) -> None:
    asset_id = await processed(domain)
    for place in (("0" * 32, 0), (asset_id, 7)):
        assert (await decide(domain, *place, "approve")).status_code == 404
