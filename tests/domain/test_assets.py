"""What people change about assets: unpublish, clearance, exposure, deletion; and what they find in lists."""

import asyncio
from typing import Any

import httpx
import pytest

from domain.repositories import asset_lists
from tests.support.acts import approved, call, decide, processed, started, submit
from tests.support.platform import Domain

ANY = {"If-Match": "*"}


async def change(
    domain: Domain, path: str, body: Any, headers: dict[str, str] = ANY, by: str = "reviewer"
) -> httpx.Response:
    return await call(domain, by, "POST", f"/assets/{path}", body, headers=headers)


async def delete(domain: Domain, path: str, headers: dict[str, str] = ANY, by: str = "reviewer") -> httpx.Response:
    return await call(domain, by, "DELETE", f"/assets/{path}?reason=not+wanted", headers=headers)


async def clearance(domain: Domain, asset_id: str, level: str) -> httpx.Response:
    return await change(domain, f"{asset_id}/clearance", {"clearance_level": level, "reason": "because"})


async def test_unpublishing_moves_latest_back_and_reopens_the_decision(domain: Domain) -> None:
    asset_id = await approved(domain, "1")
    await approved(domain, "2")
    answer = await decide(domain, asset_id, 1, "unpublish")
    assert (answer.json()["approval"], answer.json()["latest_ordinal"]) == ("pending_review", 0)
    assert domain.rows("select ordinal, served_revision from app.asset_versions order by 1") == [(0, 1), (1, None)]
    assert (await decide(domain, asset_id, 1, "approve")).json()["latest_ordinal"] == 1
    actions = domain.rows("select action from app.audit order by audit_id")
    assert [action for (action,) in actions] == ["approve", "approve", "unpublish", "approve"]


async def test_an_unpublished_version_holds_the_next_one_back(domain: Domain) -> None:
    asset_id = await approved(domain)
    await decide(domain, asset_id, 0, "unpublish")
    assert (await submit(domain, version_label="2")).status_code == 409


async def test_unpublishing_a_version_that_is_not_served_is_refused(domain: Domain) -> None:
    asset_id = await processed(domain)
    assert (await decide(domain, asset_id, 0, "unpublish")).json()["code"] == "not-reviewable"
    await decide(domain, asset_id, 0, "approve")
    await processed(domain, source="uploads/better.tif")
    answer = await decide(domain, asset_id, 0, "unpublish", revision=2)
    assert answer.status_code == 409
    assert "Revision 1 is the one that is served" in answer.json()["detail"]


async def test_clearance_change_is_recorded_with_its_reviewer(domain: Domain) -> None:
    asset_id = await approved(domain)
    stamps = "select clearance, cleared_by, made_public_by from app.assets"
    assert (await clearance(domain, asset_id, "public")).json()["clearance"] == "public"
    assert domain.rows(stamps) == [("public", "reviewer", "reviewer")]
    await clearance(domain, asset_id, "ouo")
    assert domain.rows(stamps) == [("ouo", "reviewer", None)]
    await clearance(domain, asset_id, "uncleared")
    assert domain.rows(stamps) == [("uncleared", None, None)]
    told = domain.rows(
        "select details->>'before', details->>'after' from app.audit where action = 'clearance' order by 1"
    )
    assert told == [("ouo", "public"), ("ouo", "uncleared"), ("public", "ouo")]


async def test_clearance_by_the_submitter_is_refused(domain: Domain) -> None:
    asset_id = await processed(domain)
    domain.rows("update app.clients set role = 'reviewer' where client_id = 'ddh-dev' returning 1")
    body = {"clearance_level": "public", "reason": "mine"}
    assert (await change(domain, f"{asset_id}/clearance", body, by="ddh-dev")).status_code == 403


async def test_exposure_of_an_asset_can_be_changed(domain: Domain) -> None:
    asset_id = await approved(domain)
    answer = await change(domain, f"{asset_id}/exposure", {"exposure": "all_versions"})
    assert (answer.json()["exposure"], answer.json()["latest_ordinal"]) == ("all_versions", 0)


async def test_change_without_the_current_etag_is_refused(domain: Domain) -> None:
    asset_id = await approved(domain)
    seen = (await call(domain, "reviewer", "GET", f"/assets/{asset_id}")).headers["ETag"]
    body = {"exposure": "all_versions"}
    unsaid = await change(domain, f"{asset_id}/exposure", body, headers={})
    assert (unsaid.status_code, unsaid.json()["code"]) == (428, "precondition-required")
    first = await change(domain, f"{asset_id}/exposure", body, headers={"If-Match": seen})
    assert first.status_code == 200
    late = await change(domain, f"{asset_id}/exposure", body, headers={"If-Match": seen})
    assert (late.status_code, late.json()["code"]) == (412, "changed-meanwhile")
    assert (await change(domain, f"{asset_id}/exposure", body, headers={"If-Match": first.headers["ETag"]})).is_success


@pytest.mark.parametrize("verb", ["approve", "reject", "unpublish"])
async def test_decision_with_a_stale_version_lock_is_refused(domain: Domain, verb: str) -> None:
    asset_id = await (approved(domain) if verb == "unpublish" else processed(domain))
    path = f"/assets/{asset_id}/versions/0/{verb}"
    body = {"revision": 1, "reason": "because", "clearance_level": "ouo"}
    wanted = {"approve": ("revision", "clearance_level")}.get(verb, ("revision", "reason"))
    sent = {name: body[name] for name in wanted}
    stale = await call(domain, "reviewer", "POST", path, sent, headers={"If-Match": '"77"'})
    assert (stale.status_code, stale.json()["code"]) == (412, "changed-meanwhile")
    seen = (await call(domain, "reviewer", "GET", f"/assets/{asset_id}/versions/0")).headers["ETag"]
    assert (await call(domain, "reviewer", "POST", path, sent, headers={"If-Match": seen})).status_code == 200


async def test_one_of_several_racing_changes_is_made(domain: Domain) -> None:
    asset_id = await approved(domain)
    seen = {"If-Match": (await call(domain, "reviewer", "GET", f"/assets/{asset_id}")).headers["ETag"]}
    body = {"exposure": "all_versions"}
    answers = await asyncio.gather(*(change(domain, f"{asset_id}/exposure", body, seen) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 9


@pytest.mark.parametrize("decided", [False, True])
async def test_deleting_resolves_a_pending_or_rejected_version(domain: Domain, decided: bool) -> None:
    asset_id = await processed(domain)
    if decided:
        await decide(domain, asset_id, 0, "reject")
    assert (await delete(domain, f"{asset_id}/versions/0")).status_code == 204
    assert (await submit(domain, version_label="2")).status_code == 202
    assert domain.rows("select ordinal, deleted_by from app.asset_versions order by 1") == [(0, "reviewer"), (1, None)]
    assert (await decide(domain, asset_id, 0, "approve")).status_code == 404


async def test_a_deleted_label_may_come_again_as_a_new_version(domain: Domain) -> None:
    asset_id = await processed(domain)
    await delete(domain, f"{asset_id}/versions/0")
    assert (await submit(domain)).status_code == 202
    assert domain.rows("select ordinal from app.asset_versions where deleted_at is null") == [(1,)]


async def test_deleting_a_version_stops_its_run(domain: Domain) -> None:
    await submit(domain)
    flow = await started(domain)
    [(asset_id,)] = domain.rows("select asset_id from app.assets")
    await delete(domain, f"{asset_id}/versions/0")
    assert (await flow.beat()).json() == {"stop": True}
    assert (await flow.commit()).status_code == 409
    assert domain.rows("select status from app.requests") == [("cancelled",)]


async def test_deleting_a_served_version_is_refused_until_it_is_unpublished(domain: Domain) -> None:
    asset_id = await approved(domain)
    for path in (f"{asset_id}/versions/0", asset_id):
        answer = await delete(domain, path)
        assert (answer.status_code, answer.json()["code"]) == (409, "still-served")
    await decide(domain, asset_id, 0, "unpublish")
    assert (await delete(domain, asset_id)).status_code == 204
    assert (await call(domain, "reviewer", "GET", "/assets")).json()["assets"] == []
    assert (await decide(domain, asset_id, 0, "approve")).status_code == 404


async def test_a_deleted_asset_comes_back_uncleared(domain: Domain) -> None:
    asset_id = await approved(domain, clearance_level="public")
    await decide(domain, asset_id, 0, "unpublish")
    await delete(domain, asset_id)
    assert (await submit(domain)).status_code == 202
    assert domain.rows("select clearance, deleted_at, made_public_by from app.assets") == [("uncleared", None, None)]
    assert domain.rows("select max(ordinal) from app.asset_versions") == [(1,)]


@pytest.mark.parametrize("caller", ["ddh-dev", "operator", "worker", "gateway"])
async def test_only_reviewers_change_assets(domain: Domain, caller: str) -> None:
    asset_id = await processed(domain)
    body = {"clearance_level": "public", "reason": "because"}
    assert (await change(domain, f"{asset_id}/clearance", body, by=caller)).status_code == 403
    assert (await change(domain, f"{asset_id}/exposure", {"exposure": "all_versions"}, by=caller)).status_code == 403
    assert (await delete(domain, asset_id, by=caller)).status_code == 403
    assert (await delete(domain, f"{asset_id}/versions/0", by=caller)).status_code == 403


async def test_lists_find_by_platform_reference_and_state(domain: Domain) -> None:
    first = await approved(domain)
    second = await processed(domain, refs={"dataset_id": "elevation", "resource_id": "slope"})

    async def found(query: str) -> list[str]:
        return [row["asset_id"] for row in (await call(domain, "reviewer", "GET", f"/assets?{query}")).json()["assets"]]

    assert await found("") == sorted([first, second])
    assert await found("ref=resource_id=slope") == [second]
    assert await found("ref=dataset_id=elevation&platform_id=ddh") == sorted([first, second])
    assert await found("platform_id=arcgis") == []
    assert await found("clearance=ouo") == [first]
    assert (await call(domain, "reviewer", "GET", "/assets?ref=slope")).status_code == 422
    queue = (await call(domain, "reviewer", "GET", "/versions?approval=pending_review&processing=completed")).json()
    assert [(row["asset_id"], row["newest"]["processing"]) for row in queue["versions"]] == [(second, "completed")]


async def test_lists_come_in_pages(domain: Domain) -> None:
    made = {await processed(domain, refs={"dataset_id": "d", "resource_id": str(n)}) for n in range(3)}
    for kind, key in (("assets", "assets"), ("versions", "versions")):
        first = (await call(domain, "operator", "GET", f"/{kind}?limit=2")).json()
        rest = (await call(domain, "operator", "GET", f"/{kind}?limit=2&after={first['next_after']}")).json()
        assert rest["next_after"] is None
        assert {row["asset_id"] for row in first[key] + rest[key]} == made


@pytest.mark.parametrize("few", [1, 500])
async def test_assets_are_found_by_reference_however_many_share_it(
    domain: Domain, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """Few are named one by one, by the index of references; of many, each page looks at so many in their order."""
    monkeypatch.setattr(asset_lists, "FEW", few)
    made = [await processed(domain, refs={"dataset_id": "d", "resource_id": str(n)}) for n in range(3)]
    await processed(domain, refs={"dataset_id": "another", "resource_id": "1"})
    both = (await call(domain, "operator", "GET", "/assets?ref=dataset_id=d&ref=resource_id=1")).json()
    assert ([row["asset_id"] for row in both["assets"]], both["next_after"]) == ([made[1]], None)
    first = (await call(domain, "operator", "GET", "/assets?ref=dataset_id=d&limit=2")).json()
    rest = (await call(domain, "operator", "GET", f"/assets?ref=dataset_id=d&after={first['next_after']}")).json()
    assert [row["asset_id"] for row in first["assets"] + rest["assets"]] == sorted(made)
    assert (await call(domain, "operator", "GET", "/assets?ref=dataset_id=none")).json()["assets"] == []


async def test_a_version_shows_all_its_revisions(domain: Domain) -> None:
    asset_id = await approved(domain)
    await processed(domain, source="uploads/better.tif")
    version = (await call(domain, "reviewer", "GET", f"/assets/{asset_id}/versions/0")).json()
    assert (version["served_revision"], version["newest"]["revision"]) == (1, 2)
    revisions = (await call(domain, "reviewer", "GET", f"/assets/{asset_id}/versions/0/revisions")).json()
    assert [row["approval"] for row in revisions] == ["approved", "pending_review"]
    assert (await call(domain, "reviewer", "GET", f"/assets/{asset_id}/versions/5")).status_code == 404
    assert (await call(domain, "reviewer", "GET", "/assets/nothing")).status_code == 404


async def test_platforms_are_listed_for_staff(domain: Domain) -> None:
    listed = (await call(domain, "operator", "GET", "/platforms")).json()
    assert [row["platform_id"] for row in listed] == ["arcgis", "ddh", "geonode"]
    assert (await call(domain, "ddh-dev", "GET", "/platforms")).status_code == 403


async def test_lists_show_only_the_newest_revision_that_is_not_deleted(domain: Domain) -> None:
    """What a page of the queue goes by is on the rows themselves: what is replaced or gone is passed over unread."""
    listed = "select ordinal, revision from app.revisions where is_listed order by 1, 2"
    asset_id = await processed(domain, version_label="1", source="uploads/one.tif")
    await processed(domain, version_label="1", source="uploads/another.tif")
    assert domain.rows(listed) == [(0, 2)]
    found = (await call(domain, "reviewer", "GET", "/versions?approval=pending_review&processing=completed")).json()
    assert [one["newest"]["revision"] for one in found["versions"]] == [2]
    assert (await delete(domain, f"{asset_id}/versions/0")).status_code == 204
    assert domain.rows(listed) == []
    body = {"workflow_id": "validate_dataset", "inputs": {"source": "uploads/one.tif"}}
    assert (await call(domain, "operator", "POST", "/runs", body)).status_code in {202, 422}
    assert domain.rows(listed) == []


async def test_page_of_rare_matches_reads_a_bounded_number_and_says_where_to_go_on(
    domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is rare is found by going on from page to page; nothing is left out, nothing shown twice."""
    monkeypatch.setattr("domain.rules.paging.LOOK", 2)
    for label in "abcde":
        refs = {"dataset_id": label, "resource_id": "r"}
        assert (await submit(domain, refs=refs, version_label=label)).status_code == 202
    [(rare,)] = domain.rows(
        "update app.requests set status = 'failed' where submitted ->> 'version_label' = 'a' returning request_id"
    )
    for path, key, name in (
        ("/requests?status=failed", "next", "requests"),
        ("/requests?platform_id=ddh", "next", "requests"),
        ("/requests", "next", "requests"),
        ("/runs?platform_id=ddh", "next", "runs"),
        ("/assets?clearance=uncleared", "next_after", "assets"),
        ("/versions?processing=pending", "next_after", "versions"),
    ):
        asked, _, wanted = path.partition("?")
        given = dict(part.split("=") for part in wanted.split("&") if part)
        entries, after = list[Any](), ""
        for _ in range(5):
            more = {"after": after} if after else {}
            page = (await call(domain, "operator", "GET", asked, params=given | more)).json()
            entries += page[name]
            after = page[key]
            if after is None:
                break
        assert after is None
        assert len(entries) == (1 if "failed" in path else 5), path
        if "failed" in path:
            assert entries[0]["request_id"] == str(rare)
