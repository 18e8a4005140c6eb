"""Operators' own runs: each has a scratch asset, which no door of the domain publishes, and which can be removed."""

import errno
import re
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from domain.migrations import downgrade, upgrade
from domain.services.operations.commands import COMMANDS
from flows.storage import LocalStore
from tests.domain.audiences import AUDIENCES
from tests.support.acts import Flow, call, dispatched, started, submit
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain

SOURCE = {"source": "uploads/dem.tif"}
ITEM = {"product": {}, "source": "x", "source_sha256": "0" * 64}
INPUTS = {
    "raster_ingest": SOURCE,
    "raster_tiled": SOURCE,
    "vector_ingest": SOURCE,
    "create_stac_item": ITEM,
    "process_raster": {"source": "uploads/dem.tif", "source_crs": "EPSG:4326"},
}
WORDS = {"title": "Mine"}
BODIES: dict[str, dict[str, Any]] = {
    "approve": {"revision": 1, "clearance_level": "public"},
    "reject": {"revision": 1, "reason": "not this one"},
    "unpublish": {"revision": 1, "reason": "no longer"},
    "withdraw": {"revision": 1, "reason": "no longer"},
    "clearance": {"clearance_level": "public", "reason": "for all"},
    "exposure": {"exposure": "all_versions"},
    "metadata": WORDS,
}
ANY_STATE = {"If-Match": "*"}
STANDS = """
    select a.platform_id, a.clearance, a.exposure, v.served_revision, r.approval, r.processing, a.deleted_at is null
    from app.assets a join app.asset_versions v using (asset_id) join app.revisions r using (asset_id, ordinal)
"""


async def ran(domain: Domain, workflow: str = "raster_ingest", **body: Any) -> dict[str, Any]:
    """An operator's run that is under way; what its creation answered."""
    order = {"workflow_id": workflow, "inputs": INPUTS.get(workflow, {})} | body
    answer = await call(domain, "operator", "POST", "/runs", order)
    assert answer.status_code == 202, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def made(domain: Domain) -> str:
    """A scratch asset whose run has completed."""
    asset_id = (await ran(domain))["asset_id"]
    flow = await started(domain)
    assert (await flow.commit()).status_code == 200
    return str(asset_id)


@pytest.mark.parametrize("workflow", INPUTS)
async def test_an_operators_run_is_told_the_scratch_asset_that_it_makes(domain: Domain, workflow: str) -> None:
    created = await ran(domain, workflow)
    [flow] = await dispatched(domain)
    facts = (await flow.start()).json()["facts"]
    assert facts["asset_id"] == created["asset_id"]
    assert (facts["version_ordinal"], facts["revision"], facts["version_label"]) == (0, 1, "scratch")
    assert facts["refs"] == {"request": created["request_id"], "workflow": workflow}
    assert domain.rows("select is_internal, platform_id, asset_id from app.requests") == [
        (True, None, created["asset_id"])
    ]


async def test_a_quick_run_has_a_scratch_asset_however_often_it_registers(domain: Domain) -> None:
    message = {"workflow_id": "vector_ingest", "flow_run_id": str(uuid4()), "inputs": SOURCE}
    answers = [(await call(domain, "worker", "POST", "/runs/register", message)).json() for _ in range(2)]
    assert answers[0] == answers[1]
    flow = Flow(domain, answers[0]["run_id"], answers[0]["attempt_token"], message["flow_run_id"])  # type: ignore[arg-type]
    facts = (await flow.start()).json()["facts"]
    assert domain.rows("select asset_id, platform_id, data_type from app.assets") == [
        (facts["asset_id"], "internal", "vector")
    ]


async def test_two_operators_runs_have_an_asset_each(domain: Domain) -> None:
    assert (await ran(domain))["asset_id"] != (await ran(domain))["asset_id"]


async def test_a_run_that_leaves_no_files_has_no_asset(domain: Domain) -> None:
    assert (await ran(domain, "echo_test"))["asset_id"] is None
    assert (await ran(domain, "validate_dataset", inputs=SOURCE))["asset_id"] is None
    assert (await ran(domain, only=["fetch"]))["asset_id"] is None
    assert domain.rows("select count(*) from app.assets") == [(0,)]


def doors() -> list[tuple[str, str]]:
    """Every route that changes one asset, as it is declared: one that is added is asked too."""
    return sorted(
        (method, path)
        for method, path in AUDIENCES
        if "{asset_id}" in path and method != "GET" and (method, path) != ("DELETE", "/api/v1/assets/{asset_id}")
    )


@pytest.mark.parametrize("who", ["reviewer", "admin"])
async def test_every_decision_route_refuses_scratch(domain: Domain, who: str) -> None:
    asset_id = await made(domain)
    before = domain.rows(STANDS)
    for method, path in doors():
        place = path.removeprefix("/api/v1").format(asset_id=asset_id, ordinal=0)
        body = BODIES.get(place.rpartition("/")[2])
        reason = {"params": {"reason": "tidying"}} if method == "DELETE" else {}
        answer = await call(domain, who, method, place, body, headers=ANY_STATE, **reason)
        assert (answer.status_code, answer.json()["code"]) == (409, "scratch-asset"), (method, path, answer.text)
    assert len(doors()) >= 8
    assert (
        domain.rows(STANDS)
        == before
        == [("internal", "uncleared", "latest_only", None, "pending_review", "completed", True)]
    )


async def test_every_command_refuses_scratch(domain: Domain) -> None:
    asset_id = await made(domain)
    about_one = [name for name, (model, _) in COMMANDS.items() if "asset_id" in model.model_fields]
    assert {"metadata.publish", "metadata.unpublish", "metadata.publish_external", "asset.reindex"} <= {*about_one}
    for name in about_one:
        body = {"asset_id": asset_id} | ({"metadata": WORDS} if name == "metadata.publish" else {})
        answer = await call(domain, "operator", "POST", f"/commands/{name}", body)
        told = answer.json()["code"]
        expected = "not-configured" if name == "metadata.publish_external" else "scratch-asset"
        assert (answer.status_code, told) == (409, expected), (name, answer.text)
    assert domain.rows("select count(*) from pgstac.items") == [(0,)]


async def test_reindexing_everything_leaves_scratch_out(domain: Domain) -> None:
    await made(domain)
    done = await call(domain, "operator", "POST", "/commands/asset.reindex", {})
    assert done.json()["details"] == {"assets": 0, "items": 0, "failed": [], "next": None}


async def test_scratch_is_not_in_the_queue_of_decisions(domain: Domain) -> None:
    asset_id = await made(domain)
    waiting = "/versions?approval=pending_review&processing=completed"
    for who in ("reviewer", "operator"):
        assert (await call(domain, who, "GET", waiting)).json()["versions"] == []
        [own] = (await call(domain, who, "GET", f"/versions?asset_id={asset_id}")).json()["versions"]
        assert own["label"] == "scratch"


async def test_client_registration_and_submission_for_the_scratch_platform_are_refused(domain: Domain) -> None:
    client = {"client_id": "sly", "role": "partner", "platform_id": "internal", "display_name": "Sly"}
    assert (await call(domain, "admin", "POST", "/clients", client)).status_code == 422
    registered = {"platform_id": "internal", "display_name": "Mine", "required_refs": ["a"], "version_ref": "v"}
    for is_active in (True, False):
        body = registered | {"is_active": is_active}
        answer = await call(domain, "admin", "POST", "/commands/platform.register", body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-command")
    refs = {"request": "1", "workflow": "raster_ingest"}
    assert (await submit(domain, platform_id="internal", refs=refs)).status_code == 404
    assert domain.rows("select is_active from app.platforms where platform_id = 'internal'") == [(False,)]
    assert domain.rows("select count(*) from api.platforms where platform_id = 'internal'") == [(0,)]


@pytest.mark.parametrize(
    "statement",
    [
        "update app.assets set clearance = 'public' where platform_id = 'internal'",
        "update app.platforms set is_active = true where platform_id = 'internal'",
        """insert into app.clients (client_id, role, platform_id, display_name, secret_hash)
        values ('sly', 'partner', 'internal', '', 'x')""",
    ],
)
async def test_the_database_itself_keeps_scratch_uncleared_and_without_partners(domain: Domain, statement: str) -> None:
    await made(domain)
    with pytest.raises(psycopg.errors.CheckViolation):
        domain.rows(f"{statement} returning 1")


async def test_an_operators_run_copies_nothing_to_the_external_zone(domain: Domain) -> None:
    body = {"workflow_id": "adf_export", "inputs": {"artifacts": [{}], "destination": "out/x"}}
    asked = await call(domain, "operator", "POST", "/runs", body)
    message = body | {"flow_run_id": str(uuid4())}
    registered = await call(domain, "worker", "POST", "/runs/register", message)
    for answer in (asked, registered):
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-submission")
        assert "which the service alone orders" in answer.json()["detail"]
    assert domain.rows("select count(*) from app.requests") == [(0,)]


@pytest.mark.parametrize("who", ["operator", "reviewer", "admin"])
async def test_deleting_scratch_again_removes_files_that_came_late(domain: Domain, who: str) -> None:
    asset_id, other = await made(domain), await made(domain)
    zones = domain.service.zones
    names = [f"assets/{each}/0-r1/a1/cog.tif" for each in (asset_id, other)]
    for zone in (zones.silver, zones.runs):
        for name in names:
            zone.write_bytes(name, b"pixels")
    for _ in range(2):
        path, asked = f"/assets/{asset_id}", {"params": {"reason": "seen"}, "headers": ANY_STATE}
        assert (await call(domain, who, "DELETE", path, **asked)).status_code == 204
        for zone in (zones.silver, zones.runs):
            assert [zone.size_bytes(name) for name in names] == [None, 6]
        zones.silver.write_bytes(names[0], b"too late")
    zones.silver.delete(names[0])
    left = "select asset_id from app.assets where deleted_at is null"
    assert domain.rows(left) == [(other,)]
    assert domain.rows("select count(*) from app.asset_versions where deleted_at is null") == [(1,)]


async def test_deleting_scratch_stops_its_run(domain: Domain) -> None:
    asset_id = (await ran(domain))["asset_id"]
    flow = await started(domain)
    asked = {"params": {"reason": "wrong file"}, "headers": ANY_STATE}
    assert (await call(domain, "operator", "DELETE", f"/assets/{asset_id}", **asked)).status_code == 204
    assert (await flow.beat()).json() == {"stop": True}
    assert domain.rows("select status from app.requests") == [("cancelled",)]


async def test_files_of_scratch_are_removed_after_its_deletion_commits(
    domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lock and no connection waits for storage. Where that is away the same is asked again, and is done."""
    asset_id, committed, is_away = await made(domain), list[object](), True
    name = f"assets/{asset_id}/0-r1/a1/cog.tif"
    domain.service.zones.silver.write_bytes(name, b"made")
    [(version,)] = domain.rows("select lock_version from app.assets")
    removed = LocalStore.delete_below

    def remove(store: LocalStore, folder: str) -> list[str]:
        committed.append(domain.rows("select deleted_at is not null from app.assets for update nowait"))
        if is_away:
            raise OSError(errno.EIO, "Input/output error")
        return removed(store, folder)

    monkeypatch.setattr(LocalStore, "delete_below", remove)
    asked = {"params": {"reason": "tidying"}, "headers": {"If-Match": f'"{version}"'}}
    answer = await call(domain, "operator", "DELETE", f"/assets/{asset_id}", **asked)
    assert (answer.status_code, answer.json()["code"]) == (503, "storage-unavailable")
    is_away = False
    assert (await call(domain, "operator", "DELETE", f"/assets/{asset_id}", **asked)).status_code == 204
    assert domain.service.zones.silver.size_bytes(name) is None
    assert committed == [[(True,)]] * 3


async def test_only_staff_delete_scratch_and_operators_nothing_else(domain: Domain) -> None:
    asset_id = await made(domain)
    await submit(domain)
    [(of_partner,)] = domain.rows("select asset_id from app.assets where platform_id = 'ddh'")
    asked: dict[str, Any] = {"params": {"reason": "tidying"}, "headers": ANY_STATE}
    for who, place in (("ddh-dev", asset_id), ("worker", asset_id), ("gateway", asset_id), ("operator", of_partner)):
        assert (await call(domain, who, "DELETE", f"/assets/{place}", **asked)).status_code == 403, who
    assert domain.rows("select count(*) from app.assets where deleted_at is null") == [(2,)]


def test_upgrade_leaves_a_partners_platform_named_internal_alone(database: TestDatabase) -> None:
    def ask(command: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(database.url()) as connection:
            return connection.execute(command.encode()).fetchall()

    downgrade(database.url(), before_scratch(database))
    assert ask("select count(*) from app.platforms where platform_id = 'internal'") == [(0,)]
    ask(
        "insert into app.platforms (platform_id, display_name, required_refs, version_ref)"
        " values ('internal', 'A partner', '{a}', 'v') returning 1"
    )
    ask(
        "insert into app.clients (client_id, role, platform_id, display_name, secret_hash)"
        " values ('theirs', 'partner', 'internal', '', 'x') returning 1"
    )
    with pytest.raises(RuntimeError, match="0 assets and 1 clients"):
        upgrade(database.url())
    ask("delete from app.clients where client_id = 'theirs' returning 1")
    upgrade(database.url())
    assert ask("select display_name, is_active from app.platforms where platform_id = 'internal'") == [
        ("Operators' own runs", False)
    ]


def before_scratch(database: TestDatabase) -> str:
    from alembic.script import ScriptDirectory

    from domain.db import MIGRATIONS

    below = ScriptDirectory(str(MIGRATIONS)).get_revision("0024").down_revision
    assert isinstance(below, str)
    assert re.fullmatch(r"\d{4}", below)
    return below
