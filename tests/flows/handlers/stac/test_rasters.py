"""Whatever a raster handler tells of its product becomes an item that every judge takes."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from flows.handlers.errors import HandlerError
from flows.handlers.raster.declarations import COG, COG_CREATED, CogResult
from flows.handlers.stac.items import DerivedFrom, MadeVersion, item, plain_text
from flows.handlers.stac.rasters import raster_product
from tests.support.stac import judge_item

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FACTS = MadeVersion(asset_id="a" * 32, version_ordinal=0, revision=1, version_label="1", request_id="request")
THUMBNAIL = COG.model_copy(update={"role": "thumbnail", "name": "x/thumbnail.png", "media_type": "image/png"})


class Band(BaseModel):
    """A band as a handler may come to tell of it: more than it does today, or less."""

    dtype: str
    nodata: float | None = None
    minimum: float | None = None
    mean: float | None = None
    scale: float | None = None
    offset: float | None = None
    unit: str | None = None
    description: str | None = None


class Told(BaseModel):
    """A product as a handler may come to tell of it."""

    crs: str | None = None
    bounds_wgs84: tuple[float, float, float, float]
    width: int | None = None
    height: int | None = None
    bands: list[Band] = []
    footprint_wgs84: list[Any] | None = None
    artifacts: list[Any]


anything = st.floats(allow_nan=True, allow_infinity=True)
bands = st.builds(
    Band,
    dtype=st.sampled_from(["uint8", "int16", "float64", "complex64"]),
    nodata=st.none() | anything,
    minimum=st.none() | anything,
    mean=st.none() | anything,
    scale=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    offset=st.none() | st.just(0.0),
    unit=st.none() | st.text(max_size=10),
    description=st.none() | st.text(max_size=400),
)
degrees = st.tuples(st.floats(-181, 181), st.floats(-91, 0), st.floats(-181, 181), st.floats(0, 91))
products = st.builds(
    Told,
    crs=st.none() | st.sampled_from(["EPSG:4326", "EPSG:32633"]),
    bounds_wgs84=degrees,
    width=st.none() | st.integers(1, 10**6),
    height=st.integers(1, 10**6),
    bands=st.lists(bands, max_size=16),
    footprint_wgs84=st.none() | st.lists(st.lists(st.lists(st.floats(), max_size=3), max_size=5), max_size=2),
    artifacts=st.just([COG.model_dump(), THUMBNAIL.model_dump()]),
)
references = st.dictionaries(st.from_regex(r"[a-z][a-z_]{0,20}", fullmatch=True), st.text(max_size=50), max_size=4)


def document(told: BaseModel, **facts: Any) -> dict[str, Any]:
    made = item(raster_product(told), DerivedFrom("up/dem.tif"), FACTS.model_copy(update=facts), NOW)
    return made.document()


def with_band(**told: Any) -> dict[str, Any]:
    """The band's description in the item of a product that has one such band."""
    product = Told(bounds_wgs84=(0, 0, 1, 1), bands=[Band(**{"dtype": "uint8"} | told)], artifacts=[COG.model_dump()])
    [band] = document(product)["assets"]["data"]["bands"]
    return dict(band)


@settings(max_examples=60, deadline=None)
@given(products, references)
def test_every_product_becomes_a_valid_item(told: Told, refs: dict[str, str]) -> None:
    judged = judge_item(document(told, refs=refs))
    names = judged.properties.model_extra or {}
    assert {f"platform:{ref}" for ref in refs} <= set(names)


def test_each_file_of_a_product_is_an_asset() -> None:
    product = COG_CREATED.model_copy(update={"artifacts": [THUMBNAIL, COG]})
    assets = document(product)["assets"]
    assert assets["data"]["href"].endswith(COG.name)
    assert (assets["thumbnail"]["roles"], assets["thumbnail"]["type"]) == (["thumbnail"], "image/png")
    assert assets["thumbnail"]["file:checksum"].startswith("1220")


def test_file_outside_of_the_silver_zone_is_no_asset() -> None:
    moved = COG_CREATED.model_copy(update={"artifacts": [COG, THUMBNAIL.model_copy(update={"zone": "bronze"})]})
    assert set(document(moved)["assets"]) == {"data"}


def test_product_without_its_file_is_an_internal_error() -> None:
    with pytest.raises(HandlerError, match="no artifact"):
        raster_product(COG_CREATED.model_copy(update={"artifacts": [THUMBNAIL]}))


@pytest.mark.parametrize(
    ("nodata", "written"),
    [(0, 0), (-9999.0, -9999), (math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")],
)
def test_nodata_is_a_number_or_one_of_three_words(nodata: float, written: object) -> None:
    assert with_band(nodata=nodata)["nodata"] == written


def test_scale_and_offset_are_written_only_where_they_change_values() -> None:
    assert "raster:scale" not in with_band(scale=1, offset=0)
    assert with_band(scale=0.1, offset=0)["raster:scale"] == 0.1
    assert with_band(scale=1, offset=-273.15)["raster:offset"] == -273.15


def test_statistics_of_a_band_without_valid_pixels_are_left_out() -> None:
    assert "statistics" not in with_band(minimum=math.nan, mean=math.nan)
    assert with_band(minimum=0.0, mean=math.nan)["statistics"] == {"minimum": 0}


def test_pixel_type_unknown_to_stac_is_written_as_other() -> None:
    assert with_band(dtype="complex64")["data_type"] == "other"


@pytest.mark.parametrize(
    ("text", "written"),
    [(None, None), ("", None), (" \0\n ", None), ("Near\0 infra\nred", "Near infra red"), ("x" * 999, "x" * 300)],
)
def test_band_names_of_the_data_are_cut_to_one_short_line(text: str | None, written: str | None) -> None:
    assert plain_text(text) == written


def test_footprint_found_by_the_handler_is_written() -> None:
    triangle = [[[14.8, 47.5], [15.2, 47.5], [15.0, 47.8], [14.8, 47.5]]]
    told = Told(bounds_wgs84=(14.8, 47.5, 15.2, 47.8), footprint_wgs84=triangle, artifacts=[COG.model_dump()])
    assert document(told)["geometry"] == {"type": "Polygon", "coordinates": triangle}


def test_item_without_the_digest_of_its_source_is_valid() -> None:
    [link] = [one for one in document(COG_CREATED)["links"] if one["rel"] == "derived_from"]
    assert link == {"rel": "derived_from", "href": "cairn://bronze/up/dem.tif"}


def test_item_of_the_example_result_is_complete() -> None:
    told: CogResult = COG_CREATED
    properties = document(told)["properties"]
    assert (properties["proj:code"], properties["proj:shape"]) == ("EPSG:4326", [3100, 4400])
    assert properties["processing:lineage"].endswith("that was submitted.")
    assert list(properties["processing:software"]) == ["cairn-platform"]
