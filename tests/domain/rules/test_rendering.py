"""How a raster is drawn by default: every answer can be drawn, and the ones that people expect are given."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.rendering import (
    percentile_of_parts,
    range_of,
    rendering_of,
    shown_bands,
    stretch,
    trouble,
    usable,
)

DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"]
MEANINGS = ["gray", "undefined", "red", "green", "blue", "alpha", "palette", "nir", "", None]
NAMES = ["", None, "Red", "green", "Blue", "red edge", "B02", "B03", "B04", "B8A", "band 1", "temperature", 7]
numbers = st.one_of(st.none(), st.integers(-(2**70), 2**70), st.floats(), st.booleans(), st.just("x"))
band = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(DTYPES),
        "meaning": st.sampled_from(MEANINGS),
        "description": st.sampled_from(NAMES),
        **dict.fromkeys(
            ("minimum", "maximum", "percentile_2", "percentile_98", "mean", "stddev", "valid_percent"), numbers
        ),
    },
)


@given(st.lists(band, max_size=16))
def test_any_description_of_bands_gives_a_drawable_rendering(bands: list[dict[str, Any]]) -> None:
    made = rendering_of(bands)
    assert len(made.bands) in (1, 3)
    assert len(set(made.bands)) == len(made.bands)
    assert all(1 <= number <= max(1, len(bands)) for number in made.bands)
    if any(each.get("meaning") != "alpha" for each in bands):
        assert all(bands[number - 1].get("meaning") != "alpha" for number in made.bands)
    if made.range is not None:
        low, high = made.range
        assert math.isfinite(high - low)
        assert low < high
    said = trouble(bands)
    assert said is None or said.endswith(".")


def told(*meanings: str, names: tuple[str, ...] = (), dtype: str = "uint16") -> list[dict[str, Any]]:
    each = names or ("",) * len(meanings)
    return [
        {"meaning": meaning, "description": name, "dtype": dtype, "percentile_2": 10 * at, "percentile_98": 99 + at}
        for at, (meaning, name) in enumerate(zip(meanings, each, strict=True), start=1)
    ]


UNTOLD = ("gray", *["undefined"] * 300)


@pytest.mark.parametrize(
    ("bands", "expected"),
    [
        *[(told(*UNTOLD[:count]), (1,)) for count in (1, 2, 5, 8, 13, 256)],
        *[(told(*UNTOLD[:count]), (1, 2, 3)) for count in (3, 4)],
        (told("gray", "alpha"), (1,)),
        (told("alpha", "gray"), (2,)),
        (told("alpha"), (1,)),
        (told("red", "green", "blue", "alpha"), (1, 2, 3)),
        (told("blue", "green", "red", "undefined"), (3, 2, 1)),
        (told("red", "green", "blue", "undefined", names=("B02", "B03", "B04", "B08")), (3, 2, 1)),
        (told(*UNTOLD[:4], names=("Blue", "Green", "Red", "Near infrared")), (3, 2, 1)),
        (told(*UNTOLD[:4], names=("B", "G", "R", "NIR")), (3, 2, 1)),
        (told(*UNTOLD[:4], names=("red edge", "green", "blue", "red")), (4, 2, 3)),
        (told(*UNTOLD[:3], names=("u", "v", "temperature")), (1,)),
        (told(*UNTOLD[:3], names=("band 1", "Band_2", "3")), (1, 2, 3)),
        (told(*UNTOLD[:3], names=("infra red", "green", "blue")), (1,)),
        (told("palette", "alpha"), (1,)),
        (told("undefined", "cyan", "magenta", "yellow"), (1,)),
        ([], (1,)),
    ],
)
def test_expected_bands_are_drawn(bands: list[dict[str, Any]], expected: tuple[int, ...]) -> None:
    assert shown_bands(bands) == expected


@pytest.mark.parametrize(("dtype", "count"), list(product(DTYPES, [1, 2, 3, 4, 5])))
def test_only_byte_bands_of_colours_are_drawn_unstretched(dtype: str, count: int) -> None:
    bands = told(*("red", "green", "blue", "alpha")[:count] if count in (3, 4) else UNTOLD[:count], dtype=dtype)
    made = rendering_of(bands)
    assert (made.range is None) == (dtype == "uint8" and count in (3, 4))


def test_rendering_has_one_range_for_all_drawn_bands() -> None:
    assert range_of(told("red", "green", "blue"), (1, 2, 3)) == (10, 102)
    assert range_of(told("red", "green", "blue"), (2,)) == (20, 101)
    assert range_of(told("palette"), (1,)) is None
    assert range_of(told("gray"), (9,)) is None


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"minimum": 0, "maximum": 900, "percentile_2": 5, "percentile_98": 90}, (5, 90)),
        ({"minimum": 0, "maximum": 1, "percentile_2": 0, "percentile_98": 0}, (0, 1)),  # a few ones among noughts
        ({"minimum": 0, "maximum": 900, "mean": 50, "stddev": 20}, (10, 90)),  # made before percentiles were counted
        ({"minimum": 40, "maximum": 60, "mean": 50, "stddev": 20}, (40, 60)),
        ({"minimum": 5, "maximum": 90}, (5, 90)),
        ({"minimum": 5, "maximum": 5}, (5, 5)),
        ({"minimum": 0, "maximum": 0, "valid_percent": 0}, None),
        ({"minimum": float("nan"), "maximum": "7"}, None),
        ({}, None),
    ],
)
def test_band_is_stretched_over_its_expected_range(known: dict[str, Any], expected: Any) -> None:
    assert stretch(known) == expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("value", [0.0, 1e-300, -7.0, 3e38])
def test_a_single_value_is_drawn_in_the_middle(value: float, dtype: str) -> None:
    low, high = usable(value, value)
    assert (float(np.dtype(dtype).type(value)) - low) / (high - low) == pytest.approx(0.5, abs=0.01)


def test_map_without_a_valid_pixel_is_reported_as_blank() -> None:
    empty = [each | {"valid_percent": 0} for each in told("red", "green", "blue", "alpha")]
    assert trouble(empty) == (
        "The map is blank: it is drawn from bands 1, 2 and 3, where every pixel is nodata or transparent."
    )
    assert trouble(told("gray")[:1]) is None
    assert trouble([]) is None


@given(st.lists(st.tuples(st.integers(1, 900), st.floats(-50, 50), st.floats(0, 20)), min_size=1, max_size=12))
def test_percentiles_of_parts_are_about_those_of_the_whole(parts: list[tuple[int, float, float]]) -> None:
    """Each part is spread evenly, as the sum supposes."""
    values = [np.linspace(low, low + width, 40 * count) for count, low, width in parts]
    bands = [
        (
            each.size,
            {
                "minimum": each.min(), "maximum": each.max(),
                "percentile_2": np.percentile(each, 2), "percentile_98": np.percentile(each, 98), "mean": each.mean(),
            },
        )
        for each in values
    ]  # fmt: skip
    whole = np.sort(np.concatenate(values))
    for percent in (2, 98):
        found = percentile_of_parts(bands, percent)
        assert found is not None
        below, at_most = (whole < found - 0.5).mean(), (whole <= found + 0.5).mean()
        assert below - 0.02 <= percent / 100 <= at_most + 0.02


def test_parts_without_a_valid_pixel_do_not_count() -> None:
    one = {"minimum": 5, "maximum": 9, "percentile_2": 5, "percentile_98": 9}
    nothing = {"minimum": 0, "maximum": 0, "valid_percent": 0}
    assert percentile_of_parts([(10, one), (900, nothing), (0, {"minimum": -9, "maximum": -9})], 2) == 5
    assert percentile_of_parts([(900, nothing)], 2) is None
