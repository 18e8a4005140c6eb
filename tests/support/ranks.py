"""Whether two samples come from one distribution: the Mann-Whitney test by its normal approximation."""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist


def p_of_equality(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The two-sided p: small where one sample is larger by more than chance. For dozens of each, and few ties."""
    smaller = sum((one < other) + 0.5 * (one == other) for one in ours for other in theirs)
    mean = len(ours) * len(theirs) / 2
    deviation = sqrt(mean * (len(ours) + len(theirs) + 1) / 6)
    return 2 * NormalDist().cdf(-abs(smaller - mean) / deviation)
