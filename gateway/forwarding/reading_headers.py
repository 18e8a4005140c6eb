"""What the gateway and serving tell each other of a reading. From outside neither header is let in or out."""

from typing import Final

READER: Final = "x-internal-reader"  # where the question comes from: nobody else may use up what all share
COST: Final = "x-internal-cost"  # what the answer took, in usual tiles
USUAL_PIXELS: Final = 3 * 512**2  # values of a picture in colours, of the size that is drawn where none is asked for
USUAL_BYTES: Final = 1024**2
_MOST: Final = 10_000.0


def cost_of_pixels(count: int) -> float:
    """What so many values cost their reader."""
    return max(1.0, count / USUAL_PIXELS)


def cost_of_bytes(count: int) -> float:
    """The same for features, by what they take."""
    return max(1.0, count / USUAL_BYTES)


def written(cost: float) -> str:
    return f"{cost:.2f}"


def read(header: str | None) -> float:
    """What the other side said; 1 where it said nothing that can be understood."""
    try:
        said = float(header or "1")
    except ValueError:
        return 1.0
    return min(max(said, 1.0), _MOST) if said == said else 1.0  # noqa: PLR0124 - NaN is not itself
