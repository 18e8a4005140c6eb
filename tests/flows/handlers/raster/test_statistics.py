"""What is counted of pixels, held against the plain way to count it."""

import numpy as np
import pytest

from flows.handlers.raster.statistics import Tally


@pytest.mark.parametrize("largest", [1.0, 2.0**53, 1e200, 1.7e308])
def test_no_amount_is_too_large(largest: float) -> None:
    values = np.array([[-largest, largest], [0.0, largest / 2]])
    tally = Tally()
    for row in values:
        tally.add(row, np.ones(2, bool))
    wide = values.astype(np.longdouble)
    assert tally.mean == pytest.approx(float(wide.mean()))
    assert tally.stddev == pytest.approx(float(wide.std()))
    assert (tally.minimum, tally.maximum) == (-largest, largest)
