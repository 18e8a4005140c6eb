"""Repairs: valid afterwards, of the same dimension, and counted."""

import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.handlers.vector.geometry import Findings, decoded, levelled, repaired

BOW_TIE = "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))"
SPIKE = "POLYGON ((0 0, 4 0, 4 4, 4 8, 4 4, 0 4, 0 0))"
FLAT = "POLYGON ((0 0, 1 1, 2 2, 0 0))"
COORDINATES = st.tuples(st.integers(0, 6), st.integers(0, 6))


def found(*texts: str | None) -> tuple[list[object], list[bool], Findings]:
    findings = Findings()
    wkb = pa.array([None if each is None else shapely.to_wkb(shapely.from_wkt(each)) for each in texts], pa.binary())
    geometries, kept = decoded(wkb, findings)
    return geometries.tolist(), kept.tolist(), findings


def test_valid_geometry_is_left_unchanged() -> None:
    [point, line], kept, findings = found("POINT (1 2)", "LINESTRING (0 0, 1 1, 1 0)")
    assert (point, line) == (shapely.Point(1, 2), shapely.LineString([(0, 0), (1, 1), (1, 0)]))
    assert (kept, findings.repaired, findings.rejected, findings.without_geometry) == ([True, True], 0, 0, 0)


def test_invalid_geometry_is_repaired_or_left_out() -> None:
    [tie, spike, flat, none, empty], kept, findings = found(BOW_TIE, SPIKE, FLAT, None, "POLYGON EMPTY")
    assert shapely.is_valid([tie, spike]).all()
    assert (shapely.area(tie), shapely.area(spike)) == (2, 16)
    assert (flat, none, empty) == (None, None, None)
    assert kept == [True, True, False, True, True]
    assert (findings.repaired, findings.rejected, findings.without_geometry) == (2, 1, 2)


@pytest.mark.parametrize("raw", [b"", b"\x01", b"not wkb", bytes(64), shapely.to_wkb(shapely.Point(1, 1))[:-3]])
def test_undecodable_geometry_is_left_out(raw: bytes) -> None:
    findings = Findings()
    _, kept = decoded(pa.array([raw, None], pa.binary()), findings)
    assert (kept.tolist(), findings.rejected, findings.without_geometry) == ([False, True], 1, 1)


def test_coordinates_that_are_no_numbers_are_left_out() -> None:
    findings = Findings()
    raw = [shapely.to_wkb(shapely.Point(float("nan"), 1)), shapely.to_wkb(shapely.Point(float("inf"), 1))]
    geometries, _ = decoded(pa.array(raw, pa.binary()), findings)
    findings.add(geometries)
    assert (geometries.tolist(), findings.bounds) == ([None, None], None)


@settings(deadline=None)  # the machine may be busy
@given(st.lists(COORDINATES, min_size=3, max_size=9))
def test_any_ring_becomes_valid_polygons_or_nothing(ring: list[tuple[int, int]]) -> None:
    made = repaired(shapely.Polygon(ring))
    assert made is None or (made.is_valid and made.geom_type in {"Polygon", "MultiPolygon"} and made.area > 0)


@pytest.mark.parametrize(
    ("kinds", "told"),
    [({"Polygon"}, "Polygon"), ({"Polygon", "MultiPolygon"}, "MultiPolygon"), ({"Point", "Polygon"}, "Geometry"),
     ({"GeometryCollection"}, "GeometryCollection"), (set(), "Geometry")],
)  # fmt: skip
def test_common_geometry_type_of_several_is_named(kinds: set[str], told: str) -> None:
    assert Findings(types=kinds).geometry_type == told


def test_heights_are_kept_by_all_or_none() -> None:
    mixed = shapely.from_wkt(["POINT Z (1 2 3)", "POINT (1 2)"])
    found = Findings()
    assert shapely.has_z(levelled(mixed, found, has_heights=True)).all()
    assert found.flattened == 0
    assert not shapely.has_z(levelled(mixed, found, has_heights=False)).any()
    assert found.flattened == 1
