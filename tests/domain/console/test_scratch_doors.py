"""What an operator's own run made, at every door of the assembled platform: staff may look, and nobody publishes it."""

from dataclasses import dataclass

import pytest

from domain.app import create_app
from domain.console.decisions import VERBS
from domain.security import secret_hash
from tests.domain.console.test_doors import _routes
from tests.support.acts import call
from tests.support.console import Assembly
from tests.support.platform import domain_settings
from tests.support.signing_in import at_the_console, form_token

FORMS = {
    "approve": {"revision": "1", "clearance_level": "public"},
    "clearance": {"clearance_level": "public", "reason": "for all"},
    "exposure": {"exposure": "all_versions"},
    "words": {"title": "Mine"},
}
REASONED = {"revision": "1", "reason": "not this one"}
STAFF = ("reviewer", "operator", "admin")
NOT_STAFF = ("ddh-dev", "ddh-lead", "arcgis-dev", None)


@dataclass(frozen=True)
class Scratch:
    asset_id: str
    request_id: str

    @property
    def ways_to_bytes(self) -> tuple[str, ...]:
        tiles = f"/tiles/{self.asset_id}"
        return (f"{tiles}/info?version=0", f"{tiles}/data.tif?version=0", f"{tiles}/preview.png?version=0")


@pytest.fixture
async def scratch(assembly: Assembly) -> Scratch:
    """A raster that an operator's run has made a product of."""
    assembly.domain.rows(
        "insert into app.clients (client_id, role, platform_id, scopes, display_name, secret_hash)"
        " values ('ddh-lead', 'partner', 'ddh', '{review}', 'The lead', %s) on conflict do nothing returning 1",
        secret_hash("secret-ddh-lead"),
    )
    made = await assembly.ran("uploads/scratch.tif", seed=3)
    return Scratch(made["asset_id"], made["request_id"])


def stands(assembly: Assembly, scratch: Scratch) -> tuple[object, ...]:
    query = """select a.clearance, a.exposure, r.approval, v.served_revision, (select count(*) from app.approvals),
        (select count(*) from app.exports), (select count(*) from pgstac.items where collection = a.asset_id)
        from app.assets a join app.asset_versions v using (asset_id) join app.revisions r using (asset_id, ordinal)
        where a.asset_id = %s"""
    return assembly.domain.rows(query, scratch.asset_id)[0]


UNTOUCHED = ("uncleared", "latest_only", "pending_review", None, 0, 0, 0)


async def test_scratch_is_readable_by_staff_and_404_for_everybody_else(assembly: Assembly, scratch: Scratch) -> None:
    for way in scratch.ways_to_bytes:
        told = {who: (await assembly.ask(who, "GET", way)).status_code for who in (*STAFF, *NOT_STAFF)}
        assert told == dict.fromkeys(STAFF, 200) | dict.fromkeys(NOT_STAFF, 404), way
    places = (f"/stac/collections/{scratch.asset_id}", f"/vector/collections/{scratch.asset_id}")
    for place in places:
        for who in NOT_STAFF:
            assert (await assembly.ask(who, "GET", place)).status_code == 404


async def test_partners_find_neither_a_scratch_asset_nor_its_request(assembly: Assembly, scratch: Scratch) -> None:
    for who in NOT_STAFF[:3]:
        listed = await assembly.ask(who, "GET", "/api/assets")
        assert listed.status_code == 200
        assert scratch.asset_id not in listed.text
        for place in (f"/api/assets/{scratch.asset_id}", f"/api/platform/status/{scratch.request_id}"):
            assert (await assembly.ask(who, "GET", place)).status_code == 404


@pytest.mark.parametrize("who", ["reviewer", "admin", "ddh-lead"])
async def test_every_decision_about_scratch_at_the_gateway_is_refused(
    assembly: Assembly, scratch: Scratch, who: str
) -> None:
    for verb in ("approve", "reject", "unpublish"):
        body = {"request_id": scratch.request_id} | (
            {"clearance_level": "public"} if verb == "approve" else {"reason": "not this one"}
        )
        answer = await assembly.ask(who, "POST", f"/api/platform/{verb}", json=body)
        assert answer.status_code == 404, answer.text
    assert stands(assembly, scratch) == UNTOUCHED


async def test_decision_of_a_partners_reviewer_about_scratch_is_refused_by_the_domain(
    assembly: Assembly, scratch: Scratch
) -> None:
    path, body = f"/assets/{scratch.asset_id}/versions/0/approve", {"revision": 1, "clearance_level": "public"}
    assert (await call(assembly.domain, "ddh-lead", "POST", path, body)).status_code == 404
    assert stands(assembly, scratch) == UNTOUCHED


@pytest.mark.parametrize("who", ["reviewer", "admin"])
async def test_every_form_of_the_console_refuses_scratch(assembly: Assembly, scratch: Scratch, who: str) -> None:
    page = f"/console/versions/{scratch.asset_id}/0"
    async with at_the_console(assembly, who) as http:
        token = await form_token(http)
        for verb in VERBS:
            form = FORMS.get(verb, REASONED) | {"form_token": token, "asset_lock": "1", "version_lock": "1"}
            answer = await http.post(f"{page}/{verb}", data=form)
            assert (answer.status_code, "own run and can never be approved" in answer.text) == (409, True), verb
    assert stands(assembly, scratch) == UNTOUCHED


async def test_console_shows_scratch_without_decision_forms_and_not_in_the_queue(
    assembly: Assembly, scratch: Scratch
) -> None:
    async with at_the_console(assembly, "admin") as http:
        before = await http.get("/console/?show=all")
        assert scratch.asset_id not in before.text
        assert ">Operators" not in before.text  # nor is it a platform to choose
        page = (await http.get(f"/console/versions/{scratch.asset_id}/0")).text
        assert 'id="scratch"' in page
        assert 'data-opens="dialog-' not in page
        assert scratch.asset_id[:12] in (await http.get("/console/assets?platform=internal")).text
        assert (await http.get(f"/console/assets/{scratch.asset_id}")).status_code == 200


async def test_forms_about_versions_are_the_only_ones_that_change_an_asset(assembly: Assembly) -> None:
    """Another one is to be asked above."""
    app = create_app(domain_settings(assembly.domain.database, assembly.storage))
    posts = {path for path, method in _routes(app.state.console) if method == "POST" and "asset_id" in path}
    assert posts == {"/versions/{asset_id}/{ordinal}/{verb}"}
