"""The statistics of a whole from those of its parts. Pure arithmetic: knows no file and no array."""

import math
from collections.abc import Sequence
from typing import Protocol

from domain.rules.rendering import HIGHEST_PERCENT, LOWEST_PERCENT, percentile_of_parts
from flows.handlers.raster.declarations import BandStatistics


class MeasuredPart(Protocol):
    """A part of a raster, as far as it matters here."""

    @property
    def width(self) -> int: ...

    @property
    def height(self) -> int: ...

    @property
    def bands(self) -> list[BandStatistics]: ...


def merged(parts: Sequence[MeasuredPart]) -> list[BandStatistics]:
    """The statistics of each band of the whole."""
    bands = range(len(parts[0].bands))
    return [_merged([(part.width * part.height, part.bands[band]) for part in parts]) for band in bands]


def _merged(parts: Sequence[tuple[int, BandStatistics]]) -> BandStatistics:
    """The statistics of one band from those of its parts and how many pixels each has."""
    valid = [(pixels * part.valid_percent / 100, part) for pixels, part in parts if part.valid_percent]
    total, count = sum(pixels for pixels, _ in parts), sum(pixels for pixels, _ in valid)
    if not count:
        return parts[0][1]
    mean = sum(pixels * part.mean for pixels, part in valid) / count
    variance = sum(pixels * (part.stddev**2 + (part.mean - mean) ** 2) for pixels, part in valid) / count
    told = [(pixels, part.model_dump()) for pixels, part in valid]
    return parts[0][1].model_copy(
        update={
            "minimum": min(part.minimum for _, part in valid),
            "maximum": max(part.maximum for _, part in valid),
            "mean": mean,
            "stddev": math.sqrt(variance),
            "valid_percent": 100 * count / total,
            "percentile_2": percentile_of_parts(told, LOWEST_PERCENT),
            "percentile_98": percentile_of_parts(told, HIGHEST_PERCENT),
        }
    )
