"""How long runs rest between attempts."""

from hypothesis import given
from hypothesis import strategies as some

from domain.rules.backoff import LONGEST_SECONDS, pause_seconds


@given(ended=some.integers(1, 50), spread=some.floats(0, 1), first=some.floats(0.1, 100))
def test_rest_is_within_half_of_its_nominal_length_and_bounded(ended: int, spread: float, first: float) -> None:
    usual = min(first * 4 ** (ended - 1), LONGEST_SECONDS)
    assert usual / 2 <= pause_seconds(ended, spread, first) <= usual * 1.5


def test_rest_grows_with_every_lost_attempt() -> None:
    assert [pause_seconds(ended, 0.5) for ended in (1, 2, 3, 4)] == [10, 40, 160, 300]
    assert pause_seconds(2, 0) == 20
    assert pause_seconds(2, 1) == 60


def test_rest_of_zero_stays_zero_after_every_attempt() -> None:
    assert pause_seconds(3, 1, 0) == 0
