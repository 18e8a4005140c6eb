"""Which runs a host takes: never more than it holds, the large ones not for ever behind the small."""

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.workers.admission import LONG_SECONDS, HostSize, Needs, Told, WaitingRun, admitted

HOST = HostSize(memory_mb=8192, cpus=4, gpus=1)
SMALL, HALF, LARGE, HUGE = Told(512, 0.5), Told(4096, 1), Told(8192, 4), Told(8193, 1)


def waiting(*told: Told, seconds: float = 0.0) -> list[WaitingRun]:
    return [WaitingRun(uuid4(), one, seconds) for one in told]


def taken(runs: list[WaitingRun], *held: Needs) -> list[UUID]:
    return list(admitted(runs, held, HOST, 4))


def ids(runs: list[WaitingRun]) -> list[UUID]:
    return [run.id for run in runs]


@pytest.mark.parametrize(
    ("told", "count"),
    [
        ([SMALL] * 9, 8),
        ([HALF] * 3, 2),
        ([LARGE, SMALL], 1),
        ([HUGE], 0),
        ([Told(512, 0.5, 1)] * 2, 1),
        ([Told(1, 3)] * 2, 1),
        ([Told()] * 9, 4),
        ([Told(4096), Told(), Told(4096)], 2),
    ],
)
def test_host_takes_as_many_runs_as_fit(told: list[Told], count: int) -> None:
    runs = waiting(*told)
    assert taken(runs) == ids(runs)[:count]


def test_run_that_does_not_fit_now_is_passed_until_it_has_waited_long() -> None:
    held, small = HALF.needs(HOST, 4), waiting(SMALL)
    assert taken(waiting(LARGE, seconds=LONG_SECONDS - 1) + small, held) == ids(small)
    assert taken(waiting(LARGE, seconds=LONG_SECONDS) + small, held) == []


def test_run_that_fits_no_empty_host_holds_up_nobody_here() -> None:
    small = waiting(SMALL)
    assert taken(waiting(HUGE, seconds=9999) + small) == ids(small)


def test_what_a_run_does_not_say_is_an_equal_part_of_the_host() -> None:
    assert Told.of(None).needs(HOST, 4) == Needs(512, 1)
    assert Told.of({"env": {}}).needs(HostSize(1024, 2), 4) == Needs(256, 0.5)
    assert Told.of({"memory_mb": 2048, "cpus": 2, "gpu": 1}).needs(HOST, 4) == Needs(2048, 2, 1)
    runs = waiting(*[Told()] * 8)
    assert list(admitted(runs, [], HOST, 7)) == ids(runs)[:7], "as many as at once, whatever rounding does"


def test_what_is_left_is_given_for_more_tries_to_those_that_say_what_a_try_needs() -> None:
    [first, second] = runs = waiting(Told(2048), Told(2048))
    grants = admitted(runs, [], HOST, 4)
    assert {run.id: grants[run.id].tries for run in runs} == {first.id: 3, second.id: 1}
    assert sum(grant.needs.memory_mb for grant in grants.values()) == 8192
    [silent] = waiting(Told())
    assert admitted([silent], [], HOST, 4)[silent.id].tries is None
    [only] = waiting(Told(16))
    assert admitted([only], [], HOST, 4)[only.id].tries == HOST.cpus


TOLD = st.builds(Told, st.none() | st.floats(1, 9000), st.none() | st.floats(0.1, 5), st.integers(0, 2))


@given(st.lists(st.tuples(TOLD, st.floats(0, 100)), max_size=20), st.integers(1, 12))
def test_what_a_host_takes_never_exceeds_it(offered: list[tuple[Told, float]], at_once: int) -> None:
    grants = admitted([WaitingRun(uuid4(), *one) for one in offered], [], HOST, at_once)
    given_out = [grant.needs for grant in grants.values()]
    assert sum(one.memory_mb for one in given_out) <= HOST.memory_mb + 1
    assert sum(one.cpus for one in given_out) <= HOST.cpus + 0.01
    assert sum(one.gpus for one in given_out) <= HOST.gpus
