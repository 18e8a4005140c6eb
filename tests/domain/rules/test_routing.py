"""Every case of what follows when a run waits for a pool."""

from itertools import product

import pytest

from domain.rules.routing import PoolNotice, judge, may_judge, too_large_in_words

ALLOWED = 600.0
TABLE = {
    (False, None): PoolNotice.LEAVE,
    (False, 0.0): PoolNotice.CLEAR,
    (False, 599.9): PoolNotice.CLEAR,
    (False, 600.0): PoolNotice.CLEAR,
    (False, 9000.0): PoolNotice.CLEAR,
    (True, None): PoolNotice.MARK,
    (True, 0.0): PoolNotice.LEAVE,
    (True, 599.9): PoolNotice.LEAVE,
    (True, 600.0): PoolNotice.FAIL,
    (True, 9000.0): PoolNotice.FAIL,
}


@pytest.mark.parametrize(("in_vain", "marked"), list(product([False, True], [None, 0.0, 599.9, 600.0, 9000.0])))
def test_run_that_waits_in_vain_is_marked_cleared_or_given_up_by_the_table(in_vain: bool, marked: float | None) -> None:
    assert judge(in_vain, marked, ALLOWED) is TABLE[in_vain, marked]


@pytest.mark.parametrize("marked", [None, 0.0, 599.9, 600.0, 9000.0])
def test_run_with_a_served_pool_is_never_marked_nor_given_up(marked: float | None) -> None:
    assert judge(False, marked, ALLOWED) in {PoolNotice.LEAVE, PoolNotice.CLEAR}


@pytest.mark.parametrize(
    ("needs", "largest", "says"),
    [
        (None, {"memory_mb": 1.0}, None),
        ({"memory_mb": 2.0}, None, None),
        (
            {"memory_mb": 2048, "gpu": 1},
            {"memory_mb": 1024, "gpu": 0},
            "2,048 MB of memory (the largest has 1,024) and 1 GPUs",
        ),
        ({"memory_mb": 2, "cpus": 3}, {"memory_mb": 2, "cpus": 3}, "2 MB of memory together and 3 processors together"),
    ],
)
def test_what_no_host_has_enough_of_is_said_in_words(
    needs: dict[str, float] | None, largest: dict[str, float | None] | None, says: str | None
) -> None:
    told = too_large_in_words("gdal", needs, largest)
    assert told is None if says is None else told is not None and says in told


@pytest.mark.parametrize(("listening", "may"), [(0.0, False), (24.9, False), (25.0, True), (900.0, True)])
def test_domain_that_could_not_hear_beacons_does_not_judge_pools(listening: float, may: bool) -> None:
    assert may_judge(listening, 25.0) is may
