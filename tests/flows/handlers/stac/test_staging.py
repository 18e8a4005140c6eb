"""What runs leave for the catalogue: items and words, valid, complete, and made without GDAL."""

import hashlib
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pystac
import pytest

from flows.handlers.context import Context
from flows.handlers.errors import HandlerError, InvalidInput, NoAsset, Stopped
from flows.handlers.raster.declarations import COG_CREATED, CogResult, RegisterItemParams, RegisterItemResult
from flows.handlers.raster.tile_declarations import TILE_DONE, TileResult
from flows.handlers.stac.declarations import EnsureCollectionParams, RegisterItemsParams, RegisterItemsResult
from flows.handlers.stac.staging import ensure_collection, register_item, register_items
from flows.storage import Zones
from tests.support.stac import judge_item

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


def context_of(root: Path, **facts: object) -> Context:
    return Context(
        run_id="run",
        node_id="node",
        storage=Zones.local(root),
        workdir=root,
        output_prefix="rasters/alps-dem/2-r3/a1",
        facts=FACTS | facts,
    )


def registered(
    root: Path, product: CogResult = COG_CREATED, **facts: object
) -> tuple[RegisterItemResult, dict[str, Any]]:
    params = RegisterItemParams(product=product, source="up/dem.tif", source_sha256="ab" * 32)
    made = register_item(params, context_of(root, **facts))
    return made, json.loads((root / "silver" / made.item).read_bytes())


def tile(number: int, *, is_empty: bool = False) -> TileResult:
    """One of a row of tiles that runs across the antimeridian."""
    west = 178.0 + number if number < 2 else number - 182.0
    bounds = (west, 0.0, west + 1, 1.0)
    artifacts = [one.model_copy(update={"name": f"tiles/{number}.tif"}) for one in TILE_DONE.artifacts]
    changes = {"id": f"{number}_0", "bounds_wgs84": bounds, "is_empty": is_empty, "artifacts": artifacts}
    return TILE_DONE.model_copy(update=changes)


def registered_tiles(
    root: Path, *tiles: TileResult, **facts: object
) -> tuple[RegisterItemsResult, list[dict[str, Any]]]:
    params = RegisterItemsParams(collection_id="alps-dem", tiles=list(tiles), source="up/dem.tif")
    made = register_items(params, context_of(root, **facts))
    return made, [json.loads(line) for line in (root / "silver" / made.items).read_bytes().splitlines()]


def test_the_item_is_valid_stac(tmp_path: Path) -> None:
    _, item = registered(tmp_path)
    judge_item(item)
    with pytest.raises(pystac.STACValidationError):  # the judges judge
        judge_item(item | {"bbox": ["west"]})


def test_the_item_is_named_after_asset_version_and_revision(tmp_path: Path) -> None:
    made, item = registered(tmp_path)
    assert (made.item_id, made.collection_id) == ("alps-dem-2-r3", "alps-dem") == (item["id"], item["collection"])
    assert made.item == "rasters/alps-dem/2-r3/a1/item.json"
    (artifact,) = made.artifacts
    content = (tmp_path / "silver" / made.item).read_bytes()
    assert (artifact.role, artifact.zone, artifact.name) == ("stac_item", "silver", made.item)
    assert (artifact.size_bytes, artifact.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_item_carries_the_platforms_own_references(tmp_path: Path) -> None:
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
    assert [uri.split("/")[3] for uri in item["stac_extensions"]] == [
        "file",
        "processing",
        "projection",
        "raster",
    ]


def test_data_asset_has_checksum_size_and_address(tmp_path: Path) -> None:
    data = registered(tmp_path)[1]["assets"]["data"]
    assert data["href"] == f"cairn://silver/{COG_CREATED.cog}"
    assert data["type"] == pystac.MediaType.COG
    assert (data["file:size"], data["file:checksum"]) == (1_000_000, "1220" + "0" * 64)
    (band,) = data["bands"]
    assert (band["data_type"], band["nodata"]) == ("uint16", 0)
    assert band["statistics"] == {"minimum": 1, "maximum": 4000, "mean": 2000, "stddev": 700, "valid_percent": 98}


def test_item_links_to_its_source_and_collection(tmp_path: Path) -> None:
    links = {link["rel"]: link for link in registered(tmp_path)[1]["links"]}
    assert links["derived_from"]["href"] == "cairn://bronze/up/dem.tif"
    assert links["derived_from"]["file:checksum"] == "1220" + "ab" * 32
    assert links["collection"]["href"] == "cairn://collection/alps-dem"
    assert set(links) == {"collection", "derived_from"}


def test_datetime_is_when_the_version_was_received_else_now(tmp_path: Path) -> None:
    assert registered(tmp_path)[1]["properties"]["datetime"] == "2026-01-02T03:04:05Z"
    now = registered(tmp_path, received_at=None)[1]["properties"]["datetime"]
    assert abs((datetime.now(UTC) - datetime.fromisoformat(now)).total_seconds()) < 60


def test_tiles_become_one_file_with_an_item_a_line(tmp_path: Path) -> None:
    made, items = registered_tiles(tmp_path, *(tile(number) for number in range(4)))
    assert made.item_ids == [f"alps-dem-2-r3-{number}_0" for number in range(4)] == [one["id"] for one in items]
    assert {judge_item(one).collection for one in items} == {made.collection_id}
    assert [one["assets"]["data"]["href"] for one in items] == [f"cairn://silver/tiles/{n}.tif" for n in range(4)]
    [artifact] = made.artifacts
    content = (tmp_path / "silver" / made.items).read_bytes()
    assert (artifact.role, artifact.sha256) == ("stac_items", hashlib.sha256(content).hexdigest())
    assert artifact.bbox == (178, 0, -178, 1)


def test_a_tile_without_data_is_not_catalogued(tmp_path: Path) -> None:
    made, _ = registered_tiles(tmp_path, tile(0, is_empty=True), tile(1))
    assert made.item_ids == ["alps-dem-2-r3-1_0"]
    with pytest.raises(InvalidInput, match="nothing but nodata"):
        registered_tiles(tmp_path, tile(0, is_empty=True))


def test_items_go_into_their_own_assets_collection(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="'alps-dem'"):
        registered_tiles(tmp_path, tile(0), asset_id="other")


def test_two_tiles_of_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HandlerError, match="one id"):
        registered_tiles(tmp_path, tile(0), tile(0))
    assert not (tmp_path / "silver").exists()


def test_register_items_stops_when_asked_to(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    context.stop_event.set()
    with pytest.raises(Stopped):
        register_items(RegisterItemsParams(collection_id="alps-dem", tiles=[tile(0)], source="up/dem.tif"), context)


def test_collection_file_holds_the_given_title(tmp_path: Path) -> None:
    made = ensure_collection(EnsureCollectionParams(title=" Alps\n"), context_of(tmp_path))
    [artifact] = made.artifacts
    assert (made.collection_id, artifact.role) == ("alps-dem", "stac_collection")
    assert json.loads((tmp_path / "silver" / artifact.name).read_bytes()) == {"id": "alps-dem", "title": "Alps"}


def test_writing_items_loads_no_gdal() -> None:
    loaded = "sorted({'rasterio', 'osgeo', 'rio_cogeo'} & sys.modules.keys())"
    code = f"import sys, flows.handlers.stac.staging; print({loaded})"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize("missing", ["asset_id", "version_ordinal", "revision", "version_label"])
def test_staging_without_an_asset_fails_with_a_sentence_and_without_retry(tmp_path: Path, missing: str) -> None:
    """A run as the domain words one that is about nothing: what it has not is None."""
    context = context_of(tmp_path, **{missing: None})
    tiles = RegisterItemsParams(collection_id="alps-dem", tiles=[tile(0)], source="up/dem.tif")
    acts = (
        lambda: register_item(RegisterItemParams(product=COG_CREATED, source="a", source_sha256="ab" * 32), context),
        lambda: register_items(tiles, context),
        lambda: ensure_collection(EnsureCollectionParams(), context),
    )
    for act in acts:
        with pytest.raises(NoAsset, match=f"this run is about none: it has no {missing}") as told:
            act()
        assert not told.value.retryable
        assert "pydantic" not in str(told.value)
    assert not (tmp_path / "silver").exists() or not list((tmp_path / "silver").rglob("*.json"))
