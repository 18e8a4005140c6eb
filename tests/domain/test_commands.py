"""Commands: done at once and once; the catalogue follows what is stored; other systems may be away."""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from domain.app import _sweeps
from domain.repositories import external
from domain.repositories.layers import Layers
from domain.services.publication.external_metadata import OutsideWords
from domain.shared.background import in_background
from flows.storage import Zones
from tests.support.acts import call, decide
from tests.support.clock import eventually
from tests.support.cluster import TestCluster, TestDatabase
from tests.support.lives import started, submitted, worker
from tests.support.platform import Domain, running_domain

WORDS = {"title": "Elevation <b>", "description": "Heights.", "keywords": ["dem"], "attribution": "Survey"}
PLATFORM = {
    "platform_id": "ckan",
    "display_name": "CKAN",
    "required_refs": ["package_id"],
    "version_ref": "revision",
}


async def command(domain: Domain, name: str, parameters: dict[str, Any], status: int = 200) -> Any:
    async with domain.as_("operator") as operator:
        answer = await operator.post(f"/api/v1/commands/{name}", json=parameters)
    assert answer.status_code == status, answer.text
    return answer.json()


async def served_asset(domain: Domain, storage: Path) -> str:
    """An asset whose first version is approved and catalogued."""
    return await approved_version(domain, storage, "1", 0)


async def approved_version(domain: Domain, storage: Path, label: str, ordinal: int) -> str:
    """A version of the one asset, approved and catalogued."""
    request_id = await submitted(domain, version_label=label)
    run_id, token = await started(domain, request_id)
    asset_id: str = domain.rows("select asset_id from app.assets")[0][0]
    staged = {
        "type": "Feature", "stac_version": "1.1.0", "id": f"{asset_id}-{ordinal}-r1", "collection": asset_id,
        "geometry": {"type": "Point", "coordinates": [0, 0]}, "bbox": [0, 0, 0, 0], "links": [],
        "properties": {"datetime": "2026-01-01T00:00:00Z"}, "assets": {"data": {"href": f"cairn://silver/assets/{asset_id}/{ordinal}-r1/a1/a.tif"}},
    }  # fmt: skip
    name, content = f"assets/{asset_id}/{ordinal}-r1/a1/item.json", json.dumps(staged).encode()
    Zones.local(storage).silver.write_bytes(name, content)
    artifact = {
        "role": "stac_item", "zone": "silver", "name": name, "media_type": "application/geo+json",
        "sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content),
    }  # fmt: skip
    await worker(domain, f"{run_id}/commit", {"attempt_token": token, "outputs": {}, "artifacts": [artifact]})
    async with domain.as_("reviewer") as reviewer:
        decision = {"revision": 1, "clearance_level": "public"}
        answer = await reviewer.post(f"/api/v1/assets/{asset_id}/versions/{ordinal}/approve", json=decision)
    assert answer.status_code == 200, answer.text
    return asset_id


def catalogued(domain: Domain) -> list[tuple[str, str | None, str | None]]:
    """(item, its title, its collection's title) of all that the catalogue holds."""
    found: list[tuple[str, str | None, str | None]] = []
    for item, properties, title in domain.rows(
        "select i.id, i.content -> 'properties', c.content ->> 'title' from pgstac.items i"
        " join pgstac.collections c on c.id = i.collection order by i.id"
    ):
        found.append((item, properties.get("title"), title))
    return found


async def test_metadata_is_published_and_taken_back(domain: Domain, tmp_path: Path) -> None:
    asset_id = await served_asset(domain, tmp_path)
    [(item, _, own_title)] = catalogued(domain)
    body = {"asset_id": asset_id, "metadata": WORDS}
    assert (await command(domain, "metadata.publish", body))["changed"] is True
    assert (await command(domain, "metadata.publish", body))["changed"] is False
    assert catalogued(domain) == [(item, "Elevation <b>", "Elevation <b>")]
    # Edited and not published: readers see what was published.
    domain.rows('update app.layer_metadata set content = content || \'{"title": "New"}\' returning 1')
    assert catalogued(domain)[0][1] == "Elevation <b>"
    assert (await command(domain, "metadata.publish", {"asset_id": asset_id}))["changed"] is True
    assert catalogued(domain)[0][1] == "New"
    assert (await command(domain, "metadata.unpublish", {"asset_id": asset_id}))["changed"] is True
    assert (await command(domain, "metadata.unpublish", {"asset_id": asset_id}))["changed"] is False
    assert catalogued(domain) == [(item, None, own_title)]
    noted = domain.rows("select action, actor, subject from app.audit where action like 'metadata%%' order by audit_id")
    assert [action for action, _, _ in noted] == ["metadata.publish"] * 3 + ["metadata.unpublish"] * 2
    assert {(actor, subject) for _, actor, subject in noted} == {("operator", f"asset/{asset_id}")}


async def test_published_metadata_stays_when_another_version_is_approved(domain: Domain, tmp_path: Path) -> None:
    asset_id = await served_asset(domain, tmp_path)
    await command(domain, "metadata.publish", {"asset_id": asset_id, "metadata": WORDS})
    await approved_version(domain, tmp_path, "2", 1)
    assert [titles for _, *titles in catalogued(domain)] == [["Elevation <b>", "Elevation <b>"]] * 2


async def test_reindexing_repairs_a_damaged_catalogue(domain: Domain, tmp_path: Path) -> None:
    asset_id = await served_asset(domain, tmp_path)
    before = catalogued(domain)
    domain.rows("delete from pgstac.items returning 1")
    for parameters in ({"asset_id": asset_id}, {}):
        done = await command(domain, "asset.reindex", parameters)
        assert (done["details"]["assets"], done["details"]["items"]) == (1, 1)
        assert catalogued(domain) == before


async def test_reindexing_many_goes_on_after_one_fails(
    domain: Domain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its staged file is lost; another is deleted after the assets were listed. What stands there of it stays."""
    lost_id = await served_asset(domain, tmp_path)
    Zones.local(tmp_path).silver.delete(f"assets/{lost_id}/0-r1/a1/item.json")
    good = await submitted(domain, refs={"dataset_id": "elevation", "resource_id": "other"})
    [(good_id,)] = domain.rows("select asset_id from app.requests where request_id = %s", good)
    listed = Layers.assets

    async def with_one_deleted(self: Layers, after: str | None, limit: int) -> list[str]:
        return ["f" * 32, *await listed(self, after, limit)]

    monkeypatch.setattr(Layers, "assets", with_one_deleted)
    before = catalogued(domain)
    told = (await command(domain, "asset.reindex", {"limit": 3}))["details"]
    failed = [{"asset_id": "f" * 32, "code": "not-found"}, {"asset_id": lost_id, "code": "not-in-storage"}]
    assert (told["assets"], told["items"], told["failed"]) == (1, 0, failed)
    assert told["next"] == max(good_id, lost_id)
    assert catalogued(domain) == before
    noted = domain.rows("select subject, details from app.audit where action = 'asset.reindex'")
    assert noted == [("catalogue", {"assets": 1, "items": 0, "failed": 2})]
    assert (await command(domain, "asset.reindex", {"asset_id": lost_id}, 409))["code"] == "not-in-storage"


async def test_published_layers_are_copied_outside(
    cluster: TestCluster, database: TestDatabase, tmp_path: Path
) -> None:
    with cluster.database("template0") as outside:
        async with running_domain(database, tmp_path, external_database_url=outside.url()) as domain:
            asset_id = await served_asset(domain, tmp_path)
            body = {"asset_id": asset_id}
            assert (await command(domain, "metadata.publish_external", body, 409))["code"] == "not-publishable"
            await command(domain, "metadata.publish", body | {"metadata": WORDS})
            assert (await command(domain, "metadata.publish_external", body))["changed"] is True
            assert (await command(domain, "metadata.publish_external", body))["changed"] is False
            assert standing(outside) == [(asset_id, "Elevation <b>")]
            assert domain.rows("select external_at is not null from app.layer_catalog") == [(True,)]
    with_nobody = outside.url().replace("127.0.0.1:", "127.0.0.1:1")
    async with running_again(database, tmp_path, with_nobody) as domain:
        answer = await command(domain, "metadata.publish_external", {"asset_id": asset_id}, 503)
        assert answer["code"] == "external-unavailable"


def standing(outside: TestDatabase) -> list[tuple[Any, ...]]:
    with psycopg.connect(outside.url()) as connection:
        return connection.execute("select asset_id, title from cairn_layers order by asset_id").fetchall()


async def clear(domain: Domain, asset_id: str, level: str) -> None:
    body = {"clearance_level": level, "reason": "because"}
    answer = await call(domain, "reviewer", "POST", f"/assets/{asset_id}/clearance", body, headers={"If-Match": "*"})
    assert answer.status_code == 200, answer.text


async def test_external_metadata_is_removed_once_its_layer_is_not_public(
    cluster: TestCluster, database: TestDatabase, tmp_path: Path
) -> None:
    with cluster.database("template0") as outside:
        async with running_domain(database, tmp_path, external_database_url=outside.url()) as domain:
            asset_id = await served_asset(domain, tmp_path)
            body, words = {"asset_id": asset_id}, OutsideWords(domain.service.database, outside.url())
            assert await words.recall() == [], "there is no table yet"
            await command(domain, "metadata.publish", body | {"metadata": WORDS})
            await command(domain, "metadata.publish_external", body)
            await external.put_layer(outside.url(), "f" * 32, {"title": "somebody else's"})
            assert await words.recall() == []
            await clear(domain, asset_id, "ouo")
            assert await words.recall() == [asset_id]
            refusal = await command(domain, "metadata.publish_external", body, 409)
            assert (refusal["code"], "cleared as 'ouo'" in refusal["detail"]) == ("not-publishable", True)
            await external.put_layer(outside.url(), asset_id, WORDS)  # was on its way since before the change
            assert await words.recall() == [asset_id]
            await clear(domain, asset_id, "public")
            assert standing(outside) == [("f" * 32, "somebody else's")], "out again by command only"
            assert (await command(domain, "metadata.publish_external", body))["changed"] is True
            await decide(domain, asset_id, 0, "unpublish")
            assert await words.recall() == [asset_id]
            await decide(domain, asset_id, 0, "approve")
            await command(domain, "metadata.publish_external", body)
            await command(domain, "metadata.unpublish", body)
            assert standing(outside) == [("f" * 32, "somebody else's")], "at once"
            noted = domain.rows("select actor, subject from app.audit where action = 'metadata.recall_external'")
            assert noted == [("cairn-domain", f"asset/{asset_id}")] * 4


async def test_external_metadata_that_could_not_be_removed_is_removed_later(
    cluster: TestCluster, database: TestDatabase, tmp_path: Path
) -> None:
    with cluster.database("template0") as outside:
        config = {"external_database_url": outside.url(), "external_look_seconds": 0.05}
        async with running_domain(database, tmp_path, **config) as domain:
            body = {"asset_id": await served_asset(domain, tmp_path)}
            await command(domain, "metadata.publish", body | {"metadata": WORDS})
            await command(domain, "metadata.publish_external", body)
            settings = domain.service.settings.model_copy(update={"relay_enabled": True})
            async with in_background(*_sweeps(replace(domain.service, settings=settings))):
                with away(outside):
                    assert (await command(domain, "metadata.unpublish", body))["changed"] is True
                    await asyncio.sleep(0.3)
                await eventually(lambda: standing(outside) == [])


@contextmanager
def away(outside: TestDatabase) -> Iterator[None]:
    """Within it, the database takes no connections."""
    order = f"alter database {outside.name} allow_connections"
    with psycopg.connect(outside.cluster.admin_url, autocommit=True) as administrator:
        administrator.execute(f"{order} false".encode())
        yield
        administrator.execute(f"{order} true".encode())


def running_again(database: TestDatabase, storage: Path, outside: str) -> Any:
    """The same domain over the same database, with another outside."""
    with psycopg.connect(database.url()) as connection:
        connection.execute("alter table app.requests drop constraint fk_requests_client_id")
        connection.execute("delete from app.clients")
    return running_domain(database, storage, external_database_url=outside)


async def test_registered_platform_can_be_changed_but_for_its_reference_names(domain: Domain) -> None:
    assert (await command(domain, "platform.register", PLATFORM))["changed"] is True
    assert (await command(domain, "platform.register", PLATFORM))["changed"] is False
    renamed = PLATFORM | {"display_name": "Open data", "required_refs": ["resource_id"]}
    assert (await command(domain, "platform.register", renamed))["changed"] is True
    await submitted(
        domain, platform_id="ckan", client_id="ddh-dev", refs={"resource_id": "a"}, source="uploads/ckan/a.tif"
    )
    assert (await command(domain, "platform.register", PLATFORM, 422))["code"] == "invalid-command"
    assert (await command(domain, "platform.register", renamed | {"is_active": False}))["changed"] is True


async def test_audit_names_the_changed_fields_of_a_platform(domain: Domain) -> None:
    for changes in ({}, {}, {"display_name": "Open data", "approvals_required": 2, "source_prefixes": ["ckan/"]}):
        await command(domain, "platform.register", PLATFORM | changes)
    noted = domain.rows("select details from app.audit where action = 'platform.register' order by audit_id")
    [made, same, changed] = [details for (details,) in noted]
    assert made["fields"]["display_name"] == {"before": None, "after": "CKAN"}
    assert same == {"changed": False, "fields": {}}
    assert changed == {
        "changed": True,
        "fields": {
            "display_name": {"before": "CKAN", "after": "Open data"},
            "approvals_required": {"before": 1, "after": 2},
            "source_prefixes": {"before": ["uploads/ckan/"], "after": ["ckan/"]},
        },
    }


async def test_work_is_paused_and_resumed_by_name_too(domain: Domain) -> None:
    await command(domain, "pause", {"reason": "Moving house."})
    assert domain.rows("select kind, value from app.settings") == [("pause", "Moving house.")]
    assert (await command(domain, "resume", {}))["changed"] is True
    assert (await command(domain, "resume", {}))["changed"] is False


async def test_cache_invalidation_notifies_every_listener(domain: Domain) -> None:
    connection = await psycopg.AsyncConnection.connect(domain.database.url("cairn_gateway"), autocommit=True)
    async with connection:
        await connection.execute("listen cairn_cache")
        await command(domain, "cache.invalidate", {"cache": "platforms"})
        heard = [notice.payload async for notice in connection.notifies(timeout=60, stop_after=1)]
    assert heard == ["platforms"]


@pytest.mark.parametrize(
    ("name", "parameters", "status", "says"),
    [
        ("drop.everything", {}, 404, "metadata.publish"),
        ("metadata.publish", {}, 422, "asset_id"),
        ("metadata.publish", {"asset_id": "0" * 32, "metadata": WORDS}, 404, "no asset"),
        ("metadata.publish", {"asset_id": "x'; drop table"}, 422, "asset_id"),
        ("metadata.publish_external", {"asset_id": "0" * 32}, 409, "CAIRN_EXTERNAL_DATABASE_URL"),
        ("platform.register", PLATFORM | {"required_refs": ["a; drop table b"]}, 422, "required_refs"),
        ("platform.register", PLATFORM | {"colour": "red"}, 422, "colour"),
        ("platform.register", PLATFORM | {"field_mapping": {"colour": {"path": "x"}}}, 422, "no field of a submission"),
        ("schema.migrate", {}, 409, "CAIRN_ADMIN_URL"),
    ],
)
async def test_impossible_command_is_refused_with_a_sentence(
    domain: Domain, name: str, parameters: dict[str, Any], status: int, says: str
) -> None:
    assert says in (await command(domain, name, parameters, status))["detail"]
    assert domain.rows("select count(*) from app.layer_metadata") == [(0,)]
