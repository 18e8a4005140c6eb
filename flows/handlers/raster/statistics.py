"""Counts statistics of pixels while they pass by. Pure arithmetic on arrays: knows no file.

Of large rasters every n-th pixel counts, down and across: some four million a band tell as much as all of them.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

COUNTED_PIXELS: Final = 4 * 1024**2
SAMPLED_VALUES: Final = 16_384  # of each band: they tell percentiles to a tenth of a per cent
Pixels = np.ndarray[Any, Any]
_NOTHING: Final = np.longdouble(0)


def stride(width: int, height: int) -> int:
    """Return the step between counted rows and columns."""
    return max(1, math.isqrt(width * height // COUNTED_PIXELS))


def sampling(counted: int) -> int:
    """Return the step between kept values. It is odd, so that not the same few columns are kept in every row."""
    return max(1, counted // SAMPLED_VALUES) | 1


@dataclass
class BandTally:
    """What was seen of one band so far. Sums are kept about the first value, so that nothing is lost to rounding."""

    seen: int = 0
    valid: int = 0
    minimum: float = math.inf
    maximum: float = -math.inf
    base: float = 0.0
    # In the widest floats there are: squares of what a file may hold fit in no others.
    sum: np.longdouble = _NOTHING
    squares: np.longdouble = _NOTHING
    every: int = 1
    """Every how manieth valid value is kept for percentiles."""
    sample: list[Pixels] = field(default_factory=list)

    def add(self, pixels: Pixels, valid: Pixels) -> None:
        self.seen += pixels.size
        values = pixels[valid]
        if values.dtype.kind == "f":
            values = values[np.isfinite(values)]
        if not values.size:
            return
        if not self.valid:
            self.base = float(values[0])
        self.sample.append(values[-self.valid % self.every :: self.every].copy())
        self.valid += values.size
        self.minimum = min(self.minimum, float(values.min()))
        self.maximum = max(self.maximum, float(values.max()))
        distances = _distances(values, self.base)
        self.sum += distances.sum()
        self.squares += np.square(distances).sum()

    def percentile(self, percent: float) -> float | None:
        """The value below which that much of the band lies; None without one valid pixel."""
        if not self.valid:
            return None
        return float(np.percentile(np.concatenate(self.sample).astype("float64"), percent))

    @property
    def mean(self) -> float:
        return float(self.base + self.sum / self.valid) if self.valid else 0.0

    @property
    def stddev(self) -> float:
        if not self.valid:
            return 0.0
        return float(np.sqrt(max(np.longdouble(0), self.squares / self.valid - (self.sum / self.valid) ** 2)))

    @property
    def valid_percent(self) -> float:
        return 100.0 * self.valid / self.seen if self.seen else 0.0


def _distances(values: Pixels, base: float) -> Pixels:
    """Short whole numbers as long ones, which hold all squares too and are added up many times faster than floats."""
    if values.dtype.kind in "iu" and values.dtype.itemsize <= 2:
        return values.astype(np.int64) - int(base)
    return values.astype(np.longdouble) - base


@dataclass
class Tallies:
    """What was seen of all bands of a product."""

    bands: int
    stride: int
    nodata: float | None
    alpha: int | None
    """The index of the band that says which pixels count, where there is one."""
    every: int = 1
    each: list[BandTally] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.each = [BandTally(every=self.every) for _ in range(self.bands)]

    def add(self, pixels: Pixels, mask: Pixels | None) -> None:
        """Count one cell."""
        some = pixels[:, :: self.stride, :: self.stride]
        if mask is None and self.alpha is not None:
            mask = pixels[self.alpha]
        allowed = np.ones(some.shape[1:], bool) if mask is None else mask[:: self.stride, :: self.stride] > 0
        for tally, band in zip(self.each, some, strict=True):
            is_data = allowed if self.nodata is None else allowed & (band != self.nodata)
            tally.add(band, is_data)

    def skip(self, pixels: int) -> None:
        """Count pixels none of which is valid."""
        for tally in self.each:
            tally.seen += pixels // self.stride**2
