"""What is counted of pixels, held against the plain way to count it."""

import math
from fractions import Fraction

import numpy as np
import pytest

from flows.handlers.raster.statistics import BandTally

WHOLE = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]


@pytest.mark.parametrize("largest", [1.0, 2.0**53, 1e200, 1.7e308])
def test_statistics_of_very_large_values_do_not_overflow(largest: float) -> None:
    values = np.array([[-largest, largest], [0.0, largest / 2]])
    tally = BandTally()
    for row in values:
        tally.add(row, np.ones(2, bool))
    wide = values.astype(np.longdouble)
    assert tally.mean == pytest.approx(float(wide.mean()))
    assert tally.stddev == pytest.approx(float(wide.std()))
    assert (tally.minimum, tally.maximum) == (-largest, largest)


@pytest.mark.parametrize("dtype", WHOLE)
def test_whole_numbers_are_added_up_over_their_whole_range(dtype: str) -> None:
    ends = np.iinfo(dtype)
    values = np.random.default_rng(1).integers(ends.min, ends.max, (4, 500), dtype, endpoint=True)
    values[0, 0], values[3, 0] = ends.min, ends.max
    allowed = values % 3 > 0
    allowed[[0, 3], 0] = True
    tally = BandTally()
    for row, valid in zip(values, allowed, strict=True):
        tally.add(row, valid)
    counted = [int(value) for value in values[allowed]]
    mean = Fraction(sum(counted), len(counted))
    variance = sum((value - mean) ** 2 for value in counted) / len(counted)
    assert (tally.seen, tally.valid) == (2000, len(counted))
    assert (tally.minimum, tally.maximum) == (float(ends.min), float(ends.max))
    assert tally.mean == pytest.approx(float(mean), rel=1e-12)
    assert tally.stddev == pytest.approx(math.sqrt(variance), rel=1e-12)
