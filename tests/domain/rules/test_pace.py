"""Who is slower than the pace is told so after a while, and who is as fast never is."""

from hypothesis import given
from hypothesis import strategies as st

from domain.rules.pace import Pace

PARTS = st.lists(st.tuples(st.floats(0.01, 4.0), st.integers(0, 20_000)), min_size=1, max_size=50)


@given(PARTS)
def test_a_client_that_keeps_the_pace_in_each_part_is_never_cut_off(parts: list[tuple[float, int]]) -> None:
    pace = Pace(5.0, 1000.0)
    for seconds, size in parts:
        pace.note(seconds, max(size, int(seconds * 1000) + 1))
        assert not pace.is_over


def test_a_client_that_drips_is_cut_off_when_its_slack_is_used_up() -> None:
    pace, ends = Pace(5.0, 1000.0), list[bool]()
    for _ in range(5):
        pace.note(1.0, 1)
        ends.append(pace.is_over)
    assert ends == [False] * 4 + [True]


def test_a_client_that_was_fast_has_no_more_slack_than_others() -> None:
    pace = Pace(5.0, 1000.0)
    pace.note(1.0, 10**9)
    assert pace.left_seconds == 5.0
    pace.note(5.0, 0)
    assert pace.is_over


def test_a_client_that_is_a_little_too_slow_is_cut_off_in_the_end() -> None:
    """Looked at whenever what is left is over, as the server does: it comes near nothing, and must not go on."""
    pace = Pace(5.0, 1000.0)
    for _ in range(60):
        waited = pace.left_seconds
        pace.note(waited, int(waited * 900))
    assert pace.is_over
