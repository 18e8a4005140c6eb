"""What the models refuse is what the extensions' own schemas refuse, and what JSON cannot say."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from flows.handlers.stac.models import Properties, StacAsset, StacBand, StacItem

NOW = datetime(2026, 1, 2, tzinfo=UTC)
POLYGON = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}
DOCUMENT: dict[str, Any] = {
    "id": "a-0-r1",
    "collection": "a",
    "geometry": POLYGON,
    "bbox": [0, 0, 1, 1],
    "properties": {"datetime": NOW},
    "assets": {"data": {"href": "cairn://silver/a", "roles": ["data"]}},
}


def item(**changes: Any) -> StacItem:
    return StacItem.model_validate(DOCUMENT | changes)


def properties(**more: Any) -> StacItem:
    return item(properties={"datetime": NOW, **more})


def test_item_names_exactly_the_extensions_that_it_uses() -> None:
    assert item().document()["stac_extensions"] == []
    named = properties(**{"proj:code": "EPSG:4326", "platform:dataset_id": "dem"}).document()
    assert named["stac_extensions"] == ["https://stac-extensions.github.io/projection/v2.0.0/schema.json"]
    band = {"name": "b1", "raster:scale": 0.1}
    data = {"href": "cairn://silver/a", "roles": ["data"], "bands": [band], "file:size": 1}
    used = item(assets={"data": data}).document()["stac_extensions"]
    assert [one.split("/")[3] for one in used] == ["file", "raster"]


def test_unknown_values_are_left_out_of_an_item() -> None:
    document = item().document()
    assert set(document["assets"]["data"]) == {"href", "roles"}
    assert set(document["properties"]) == {"datetime"}


@pytest.mark.parametrize(
    "more",
    [
        {"proj:code": "4326"},
        {"proj:shape": [0, 5]},
        {"proj:transform": [1, 2, 3]},
        {"table:row_count": -1},
        {"table:columns": []},
        {"platform:dataset_id": 5},
        {"unknown": "field"},
        {"proj:epsg": "4326"},
        {"datetime": "2026-01-02T00:00:00"},
    ],
)
def test_fields_that_the_extensions_do_not_have_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        properties(**more)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "../x"},
        {"bbox": [0, 0, 181, 1]},
        {"bbox": [0, float("nan"), 1, 1]},
        {"assets": {}},
        {"geometry": None},
        {"geometry": {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [0, 0]]]}},
        {"geometry": {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 91], [0, 0]]]}},
        {"links": [{"rel": "self"}]},
        {"more": 1},
    ],
)
def test_a_broken_item_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        item(**changes)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "none"])
def test_numbers_beyond_json_are_refused_in_an_item(value: object) -> None:
    with pytest.raises(ValidationError):
        StacBand.model_validate({"name": "b1", "nodata": value})
    with pytest.raises(ValidationError):
        StacBand.model_validate({"name": "b1", "statistics": {"mean": value}})


def test_bands_of_one_name_are_refused() -> None:
    bands = [{"name": "b1"}, {"name": "b1"}]
    with pytest.raises(ValidationError, match="one name"):
        StacAsset.model_validate({"href": "x", "roles": ["data"], "bands": bands})


def test_a_table_may_be_described() -> None:
    columns = [{"name": "geom", "type": "byte_array"}, {"name": "c_001", "description": "Höhe"}]
    described = Properties.model_validate({"datetime": NOW, "table:columns": columns, "table:row_count": 3})
    assert described.table__row_count == 3
