"""A new partner system is a command, and works at once, in its own words."""

from typing import Any

from tests.gateway.world import call
from tests.support.platform import Platform

ACME: dict[str, Any] = {
    "platform_id": "acme",
    "display_name": "Acme Atlas",
    "required_refs": ["item_id"],
    "optional_refs": ["layer"],
    "version_ref": "edition",
    "field_mapping": {
        "item_id": {"path": "item.id"},
        "layer": {"path": "item.layerIndex"},
        "edition": {"path": "item.version.label"},
        "source": {"path": "file.url"},
        "data_type": {"path": "file.mediaType", "infer": True},
        "operation": {"constant": "ingest"},
        "parameters.target_crs": {"path": "crs"},
    },
}
ITEM = {"id": "12", "version": {"label": "2026"}}
BODY = {"item": ITEM, "file": {"url": "uploads/acme/dem.tif", "mediaType": "image/tiff"}, "crs": "EPSG:3857"}


async def register(platform: Platform, **changes: Any) -> dict[str, Any]:
    async with platform.domain.as_("operator") as operator:
        answer = await operator.post("/api/v1/commands/platform.register", json=ACME | changes)
    assert answer.status_code == 200, answer.text
    done: dict[str, Any] = answer.json()
    return done


async def test_a_registered_platform_submits_and_is_answered_in_its_own_words(platform: Platform) -> None:
    assert (await register(platform))["changed"] is True
    async with platform.domain.as_("operator") as operator:
        order = {"client_id": "acme-dev", "role": "partner", "platform_id": "acme", "display_name": "Acme"}
        key = (await operator.post("/api/v1/clients", json=order)).json()["api_key"]
    async with platform.as_(None) as acme:
        acme.headers["X-API-Key"] = key
        accepted = await acme.post("/api/platform/submit", json=BODY)
        assert accepted.status_code == 202, accepted.text
        told = (await acme.get(accepted.json()["status_url"])).json()
        assert told["identifies"] == {"item": ITEM}
        [(refs, submitted)] = platform.domain.rows(
            "select a.refs, q.submitted from app.assets a join app.requests q using (asset_id)"
        )
        assert refs == {"item_id": "12"}
        assert submitted["parameters"]["target_crs"] == "EPSG:3857"
        refused = await acme.post("/api/platform/submit", json=BODY | {"dataset_id": "x"})
        assert "'dataset_id' is not a field of a acme submission" in refused.json()["detail"]
        mapping = ACME["field_mapping"] | {"source": {"path": "download"}}
        assert (await register(platform, field_mapping=mapping))["changed"] is True
        moved = {"item": ITEM | {"id": "13"}, "file": {"mediaType": "image/tiff"}, "download": "uploads/acme/b.tif"}
        assert (await acme.post("/api/platform/submit", json=moved)).status_code == 202
        assert (await register(platform, is_active=False))["changed"] is True
        gone = await acme.post("/api/platform/submit", json=moved)
        assert (gone.status_code, gone.json()["code"]) == (403, "forbidden")


async def test_seeded_partner_may_leave_out_inferable_fields(platform: Platform) -> None:
    for client_id, refs, source in (
        ("arcgis-dev", {"item_id": "a1", "layer_index": 0, "version": 1}, "uploads/roads.gpkg"),
        ("ddh-dev", {"dataset_id": "a", "resource_id": "b", "version_id": "1"}, "uploads/dem.tif"),
    ):
        body = refs | {"source": source}
        bare = await call(platform, client_id, "POST", "/api/platform/submit", json=body)
        whole = body | {"data_type": "raster", "operation": "ingest"}
        if client_id == "arcgis-dev":
            assert bare.status_code == 202, bare.text
            told = (await call(platform, client_id, "GET", bare.json()["status_url"])).json()
            assert (told["data_type"], told["operation"]) == ("vector", "ingest")
        else:
            assert "'data_type' is missing" in bare.json()["detail"]
            assert (await call(platform, client_id, "POST", "/api/platform/submit", json=whole)).status_code == 202
