"""Boxes and outlines in degrees, by the rules of RFC 7946."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.contracts.artifacts import Bounds
from domain.rules.extents import crosses, union
from flows.handlers.stac.footprints import checked_bbox, footprint
from flows.handlers.stac.models import MultiPolygon

SQUARE = [[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0], [0.0, 0.0]]
HOLE = [[1.0, 1.0], [1.0, 2.0], [2.0, 2.0], [2.0, 1.0], [1.0, 1.0]]
longitudes = st.integers(-180, 180).map(float)
latitudes = st.integers(-90, 90).map(float)


@st.composite
def boxes(draw: st.DrawFn) -> Bounds:
    """Any box, across the antimeridian too."""
    south, north = sorted((draw(latitudes), draw(latitudes)))
    return draw(longitudes), south, draw(longitudes), north


def covers(box: Bounds, longitude: float) -> bool:
    west, _, east, _ = box
    return west <= longitude or longitude <= east if crosses(box) else west <= longitude <= east


def coordinates(bounds: Bounds, outline: Any = None) -> list[Any]:
    drawn = footprint(bounds, outline)
    return drawn.coordinates if isinstance(drawn, MultiPolygon) else [drawn.coordinates]


def test_coordinate_rounded_beyond_the_world_is_clamped() -> None:
    assert checked_bbox((-180.0000001, -90.5, 180.2, 90.1)) == (-180, -90, 180, 90)


def test_a_box_across_the_antimeridian_has_a_part_on_either_side() -> None:
    [[east], [west]] = coordinates((179.0, -20.0, -178.0, -15.0))
    assert (east[0], east[2]) == ((179, -20), (180, -15))
    assert (west[0], west[2]) == ((-180, -20), (-178, -15))


@pytest.mark.parametrize("bounds", [(179.0, 0.0, -180.0, 1.0), (180.0, 0.0, -179.0, 1.0)])
def test_a_box_that_only_touches_the_antimeridian_has_one_part(bounds: Bounds) -> None:
    assert len(coordinates(bounds)) == 1


@settings(deadline=None)
@given(boxes())
def test_a_footprint_covers_what_its_box_covers(box: Bounds) -> None:
    parts = [ring for [ring] in coordinates(box)]
    for longitude in range(-179, 180, 7):
        inside = any(min(x for x, _ in ring) <= longitude <= max(x for x, _ in ring) for ring in parts)
        assert inside == covers(box, longitude)


@settings(deadline=None)
@given(boxes())
def test_outer_rings_run_counterclockwise_and_are_closed(box: Bounds) -> None:
    for [ring] in coordinates(box):
        area = sum(x * after_y - after_x * y for (x, y), (after_x, after_y) in pairwise(ring))
        assert area >= 0
        assert ring[0] == ring[-1]


def test_outline_is_rewound_as_rfc_7946_asks() -> None:
    bounds = (0.0, 0.0, 4.0, 4.0)
    wrong = [SQUARE[::-1], HOLE[::-1]]
    expected = [[[tuple(point) for point in SQUARE], [tuple(point) for point in HOLE]]]
    assert coordinates(bounds, wrong) == coordinates(bounds, [wrong]) == expected


def test_an_outline_of_two_parts_is_a_multipolygon() -> None:
    assert len(coordinates((0.0, 0.0, 4.0, 4.0), [[SQUARE], [HOLE]])) == 2


@pytest.mark.parametrize(
    "outline",
    [
        None,
        [],
        [[]],
        SQUARE,
        [SQUARE[:-1]],
        [[[200.0, 0.0], *SQUARE[1:-1], [200.0, 0.0]]],
        "POLYGON",
        [["x"]],
        [[[[1]]]],
    ],
)
def test_box_is_drawn_where_the_outline_is_unusable(outline: Any) -> None:
    assert coordinates((0.0, 0.0, 4.0, 4.0), outline) == [[[tuple(point) for point in SQUARE]]]


@settings(deadline=None)
@given(st.lists(boxes(), min_size=1, max_size=5))
def test_a_union_covers_all_of_its_boxes(given_boxes: list[Bounds]) -> None:
    joined = union(given_boxes)
    assert joined is not None
    for box in given_boxes:
        assert joined[1] <= box[1]
        assert box[3] <= joined[3]
    for longitude in [step / 2 for step in range(-359, 360, 3)]:
        if any(covers(box, longitude) for box in given_boxes):
            assert covers(joined, longitude)


@settings(deadline=None)
@given(st.lists(boxes().filter(lambda box: box[0] % 360 != box[2] % 360), min_size=1, max_size=5))
def test_union_leaves_out_the_widest_gap_between_its_boxes(given_boxes: list[Bounds]) -> None:
    """What it leaves out is the widest gap between its boxes, degree by degree."""
    joined = union(given_boxes)
    assert joined is not None
    uncovered = {at for at in range(-180, 180) if not any(covers(box, at + 0.5) for box in given_boxes)}
    if not uncovered:
        return
    widest, run = 0, 0
    for at in range(-180, 540):
        run = run + 1 if (at + 180) % 360 - 180 in uncovered else 0
        widest = max(widest, min(run, 360))
    width = joined[2] - joined[0] + (360 if crosses(joined) else 0)
    assert 360 - width == widest


@pytest.mark.parametrize(
    ("given_boxes", "expected"),
    [
        ([], None),
        ([(1.0, 2.0, 3.0, 4.0)], (1, 2, 3, 4)),
        ([(170.0, 0.0, 175.0, 1.0), (-175.0, 0.0, -170.0, 1.0)], (170, 0, -170, 1)),
        ([(-10.0, 0.0, -5.0, 1.0), (5.0, 0.0, 10.0, 1.0)], (-10, 0, 10, 1)),
        ([(179.0, 0.0, -179.0, 1.0), (-180.0, 0.0, -170.0, 1.0)], (179, 0, -170, 1)),
        ([(-180.0, -90.0, 180.0, 90.0), (179.0, 0.0, -179.0, 1.0)], (-180, -90, 180, 90)),
    ],
)
def test_union_of_boxes_is_the_expected_one(given_boxes: list[Bounds], expected: Bounds | None) -> None:
    assert union(given_boxes) == expected
