"""Wrong credentials are counted by source, in bounded memory, and those who share it go on."""

import pytest

from domain.rules.guesses import Guesses


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def guesses(clock: Clock | None = None, places: int = 10) -> Guesses:
    return Guesses(limit=3, window_seconds=60, places=places, clock=clock or Clock())


def test_source_over_its_guesses_waits_for_the_rest_of_its_minute() -> None:
    clock = Clock()
    counted = guesses(clock)
    for _ in range(3):
        assert counted.wait_seconds("10.0.0.1", "x") == 0
        counted.was_wrong("10.0.0.1")
    clock.now += 20.5
    assert counted.wait_seconds("10.0.0.1", "x") == 40
    assert counted.wait_seconds("10.0.0.2", "x") == 0
    clock.now += 40
    assert counted.wait_seconds("10.0.0.1", "x") == 0
    counted.was_wrong("10.0.0.1")  # and begins to count anew
    assert counted.wait_seconds("10.0.0.1", "x") == 0


def test_known_credential_goes_on_only_at_the_source_where_it_was_good() -> None:
    counted = guesses()
    counted.was_right("10.0.0.1", "good")
    for _ in range(9):
        counted.was_wrong("10.0.0.1")
        counted.was_wrong("10.0.0.2")
    assert counted.wait_seconds("10.0.0.1", "good") == 0
    assert counted.wait_seconds("10.0.0.2", "good") > 0


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "", True),
    ],
)
def test_one_customers_network_is_one_source(first: str, second: str, *, is_same: bool) -> None:
    counted = guesses()
    for _ in range(3):
        counted.was_wrong(first)
    assert (counted.wait_seconds(second, "x") > 0) is is_same


def test_a_credential_is_known_where_it_was_good_until_it_turns_out_wrong() -> None:
    counted = guesses()
    counted.was_right("10.0.0.1", "good")
    assert counted.is_known("::ffff:10.0.0.1", "good")
    assert not counted.is_known("10.0.0.2", "good")
    counted.was_wrong("10.0.0.1", "other")
    assert counted.is_known("10.0.0.1", "good")
    counted.was_wrong("10.0.0.1", "good")
    assert not counted.is_known("10.0.0.1", "good")


def test_memory_of_guesses_is_bounded() -> None:
    counted = guesses(places=100)
    for number in range(10_000):
        counted.was_wrong(f"host-{number}")
        counted.was_right(f"host-{number}", "good")
    assert (len(counted._wrong), len(counted._good)) == (100, 100)
