"""The staged STAC item: valid by two independent validators, complete, and made without GDAL."""

import hashlib
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pystac
import pytest
import stac_pydantic
from pydantic import ValidationError
from pystac.validation.stac_validator import JsonSchemaSTACValidator

from flows.context import Context
from flows.handlers.raster.declarations import COG_CREATED, CogResult, RegisterItemParams, RegisterItemResult
from flows.handlers.stac import register_item
from flows.storage import Zones

FACTS: dict[str, object] = {
    "asset_id": "alps-dem",
    "version_ordinal": 2,
    "revision": 3,
    "platform_id": "ddh",
    "refs": {"dataset_id": "dem", "resource_id": "alps", "version_id": "v2.0"},
    "version_label": "v2.0",
    "request_id": "request-1",
    "received_at": "2026-01-02T03:04:05+00:00",
}


def registered(
    root: Path, product: CogResult = COG_CREATED, **facts: object
) -> tuple[RegisterItemResult, dict[str, Any]]:
    context = Context(
        run_id="run",
        node_id="node",
        storage=Zones.local(root),
        workdir=root,
        output_prefix="rasters/alps-dem/2-r3/a1",
        facts=FACTS | facts,
    )
    params = RegisterItemParams(product=product, source="up/dem.tif", source_sha256="ab" * 32)
    made = register_item(params, context)
    return made, json.loads((root / "silver" / made.item).read_bytes())


def test_the_item_is_valid_stac(tmp_path: Path) -> None:
    """By pystac's own copy of the 1.1 schema and by stac-pydantic; the extensions' schemas are in no package."""
    _, item = registered(tmp_path)
    validator = JsonSchemaSTACValidator()
    validator.validate_core(item, pystac.STACObjectType.ITEM, "1.1.0")
    stac_pydantic.Item.model_validate(item)
    with pytest.raises(pystac.STACValidationError):
        validator.validate_core(item | {"bbox": ["west"]}, pystac.STACObjectType.ITEM, "1.1.0")
    assert item["stac_version"] == "1.1.0"
    assert pystac.Item.from_dict(item, migrate=False, preserve_dict=True).id == "alps-dem-2-r3"


def test_the_item_is_named_after_asset_version_and_revision(tmp_path: Path) -> None:
    made, item = registered(tmp_path)
    assert (made.item_id, made.collection_id) == ("alps-dem-2-r3", "alps-dem") == (item["id"], item["collection"])
    assert made.item == "rasters/alps-dem/2-r3/a1/item.json"
    (artifact,) = made.artifacts
    content = (tmp_path / "silver" / made.item).read_bytes()
    assert (artifact.role, artifact.zone, artifact.name) == ("stac_item", "silver", made.item)
    assert (artifact.size_bytes, artifact.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_the_platform_finds_its_own_names(tmp_path: Path) -> None:
    properties = registered(tmp_path)[1]["properties"]
    assert {key: value for key, value in properties.items() if key.startswith("platform:")} == {
        "platform:dataset_id": "dem",
        "platform:resource_id": "alps",
        "platform:version_id": "v2.0",
        "platform:request_id": "request-1",
    }


def test_projection_fields_describe_the_product(tmp_path: Path) -> None:
    item = registered(tmp_path)[1]
    assert item["properties"]["proj:code"] == "EPSG:4326"
    assert item["properties"]["proj:shape"] == [COG_CREATED.height, COG_CREATED.width]
    assert item["properties"]["proj:transform"] == COG_CREATED.transform
    assert item["properties"]["proj:bbox"] == list(COG_CREATED.bounds_native)
    assert item["bbox"] == list(COG_CREATED.bounds_wgs84)
    assert [uri.split("/")[3] for uri in item["stac_extensions"]] == ["projection", "raster", "file"]


def test_the_data_asset_can_be_trusted_and_read(tmp_path: Path) -> None:
    data = registered(tmp_path)[1]["assets"]["data"]
    assert data["href"] == f"cairn://silver/{COG_CREATED.cog}"
    assert data["type"] == pystac.MediaType.COG
    assert (data["file:size"], data["file:checksum"]) == (1_000_000, "1220" + "0" * 64)
    (band,) = data["bands"]
    assert (band["data_type"], band["nodata"]) == ("uint16", 0)
    assert band["statistics"] == {"minimum": 1, "maximum": 4000, "mean": 2000, "stddev": 700, "valid_percent": 98}


def test_the_item_says_what_it_was_derived_from(tmp_path: Path) -> None:
    links = {link["rel"]: link for link in registered(tmp_path)[1]["links"]}
    assert links["derived_from"]["href"] == "cairn://bronze/up/dem.tif"
    assert links["derived_from"]["file:checksum"] == "1220" + "ab" * 32
    assert links["collection"]["href"] == "cairn://collection/alps-dem"
    assert set(links) == {"collection", "derived_from"}


def test_datetime_is_when_the_version_was_received_else_now(tmp_path: Path) -> None:
    assert registered(tmp_path)[1]["properties"]["datetime"] == "2026-01-02T03:04:05Z"
    now = registered(tmp_path, received_at=None)[1]["properties"]["datetime"]
    assert abs((datetime.now(UTC) - datetime.fromisoformat(now)).total_seconds()) < 60


def test_a_footprint_across_the_antimeridian_has_two_parts(tmp_path: Path) -> None:
    item = registered(tmp_path, COG_CREATED.model_copy(update={"bounds_wgs84": (179.0, -20.0, -178.0, -15.0)}))[1]
    assert item["geometry"]["type"] == "MultiPolygon"
    east, west = item["geometry"]["coordinates"]
    assert [east[0][0], east[0][2]] == [[179, -20], [180, -15]]
    assert [west[0][0], west[0][2]] == [[-180, -20], [-178, -15]]
    stac_pydantic.Item.model_validate(item)


def test_a_nan_nodata_is_written_as_the_word(tmp_path: Path) -> None:
    band = COG_CREATED.bands[0].model_copy(update={"nodata": float("nan"), "dtype": "float32"})
    item = registered(tmp_path, COG_CREATED.model_copy(update={"bands": [band]}))[1]
    assert item["assets"]["data"]["bands"][0]["nodata"] == "nan"


def test_a_run_without_the_domains_facts_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        registered(tmp_path, asset_id=None)
    assert not (tmp_path / "silver").exists()


def test_writing_items_loads_no_gdal() -> None:
    code = "import sys, flows.handlers.stac; print(sorted({'rasterio', 'osgeo', 'rio_cogeo'} & sys.modules.keys()))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
