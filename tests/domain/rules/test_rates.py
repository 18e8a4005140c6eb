"""Buckets: nobody gets more calls than the rate allows, whoever waits as told is let through, memory is bounded."""

from hypothesis import given
from hypothesis import strategies as st

from domain.rules.rates import Buckets


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def buckets(per_second: float = 2.0, burst: float = 5.0, places: int = 10_000) -> tuple[Buckets, Clock]:
    clock = Clock()
    return Buckets(per_second, burst, places, clock), clock


@given(st.lists(st.floats(0.0, 3.0), max_size=200))
def test_calls_in_any_stretch_stay_within_burst_and_rate(pauses: list[float]) -> None:
    limits, clock = buckets()
    let_through = 0
    for pause in pauses:
        clock.now += pause
        if limits.wait_seconds("a") == 0:
            limits.charge("a")
            let_through += 1
    assert let_through <= 5.0 + 2.0 * clock.now + 1e-6


@given(st.integers(1, 2000))
def test_caller_who_waits_as_long_as_told_is_let_through(cost: int) -> None:
    limits, clock = buckets()
    limits.charge("a", cost)
    wait = limits.wait_seconds("a")
    if wait:
        clock.now += wait - 1
        assert limits.wait_seconds("a") > 0 or wait == 1
        clock.now += 1
    assert limits.wait_seconds("a") == 0


def test_debt_of_one_caller_does_not_delay_another() -> None:
    limits, _ = buckets()
    limits.charge("a", 100)
    assert (limits.wait_seconds("a"), limits.wait_seconds("b")) == (48, 0)


def test_caller_who_called_longest_ago_is_forgotten_first() -> None:
    limits, _ = buckets(places=2)
    for caller in ("a", "b", "c"):
        limits.charge(caller, 100)
    assert [limits.wait_seconds(caller) > 0 for caller in ("a", "b", "c")] == [False, True, True]
