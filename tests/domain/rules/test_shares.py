"""What is limited is shared: one source gets so much, the last part goes to who holds little, and nothing is lost."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.shares import InTheWay, Shares

ACTS = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 9), st.booleans()), max_size=80)


def test_one_source_holds_no_more_than_its_share() -> None:
    shares = Shares(100, 40)
    assert [shares.take("a", 20) for _ in range(3)] == [None, None, InTheWay.OWN]
    assert shares.take("b", 40) is None
    shares.give("a", 20)
    assert shares.take("a", 20) is None


def test_reserve_is_given_only_to_sources_that_hold_little() -> None:
    shares = Shares(100, 40, reserve=25, little=5)
    for greedy in "ab":
        while shares.take(greedy) is None:
            pass
    assert (shares.held("a"), shares.held("b"), shares.free) == (40, 35, 25)
    assert shares.take("c", 5) is None
    assert shares.take("c") is InTheWay.OTHERS
    assert [shares.take(f"newcomer-{number}", 5) for number in range(5)] == [None] * 4 + [InTheWay.OTHERS]


@given(ACTS)
def test_sum_of_shares_stays_constant(acts: list[tuple[str, int, bool]]) -> None:
    shares, held = Shares(60, 25, reserve=15, little=6), Counter[str]()
    for source, amount, gives in acts:
        if gives and held[source] >= amount:
            shares.give(source, amount)
            held[source] -= amount
        elif not gives and shares.take(source, amount) is None:
            held[source] += amount
            assert held[source] <= 25
        assert shares.free == 60 - held.total() >= 0
        assert {name: shares.held(name) for name in held} == dict(held)
    assert set(shares._held) == {name for name, count in held.items() if count}  # nobody else is remembered


@pytest.mark.parametrize(("most", "each", "reserve"), [(10, 11, 0), (10, 0, 0), (10, 5, 10), (10, 5, -1)])
def test_shares_that_make_no_sense_are_refused(most: int, each: int, reserve: int) -> None:
    with pytest.raises(ValueError, match="one share"):
        Shares(most, each, reserve=reserve)
