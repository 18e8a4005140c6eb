"""Boxes in degrees: west, south, east, north. Where west is greater than east, one crosses the antimeridian. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from domain.contracts.artifacts import Bounds

Span = tuple[float, float]  # of longitude; an east beyond 180 lies across the antimeridian


def crosses(bounds: Bounds) -> bool:
    """Whether the box goes across the antimeridian."""
    return bounds[0] > bounds[2]


def union(boxes: Sequence[Bounds]) -> Bounds | None:
    """The smallest box around all of these, across the antimeridian where that is the shorter way; None of none."""
    if not boxes:
        return None
    spans = _joined(sorted((box[0], box[2] + 360 if crosses(box) else box[2]) for box in boxes))
    west, east = _around(spans)
    return west, min(box[1] for box in boxes), east, max(box[3] for box in boxes)


def _joined(spans: list[Span]) -> list[Span]:
    """The sorted spans without overlaps, round the world."""
    joined = [spans[0]]
    for west, east in spans[1:]:
        if west <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], east))
        else:
            joined.append((west, east))
    while len(joined) > 1 and joined[-1][1] - 360 >= joined[0][0]:  # the last one reaches the first
        _, east = joined.pop(0)
        joined[-1] = (joined[-1][0], max(joined[-1][1], east + 360))
    return joined


def _around(spans: list[Span]) -> Span:
    """From the end of the widest gap between the spans to its beginning."""
    gaps = [(spans[0][0] + 360 - spans[-1][1], spans[0][0], spans[-1][1])]
    gaps += [(after[0] - before[1], after[0], before[1]) for before, after in pairwise(spans)]
    width, west, east = max(gaps)
    if width <= 0:
        return -180.0, 180.0
    return west, east - 360 if east > 180 else east
