"""Whether a child run is taken for alive: its own signs, Prefect's mark, pauses, a storage that is silent."""

from collections.abc import Iterable
from uuid import UUID

import pytest
from prefect.client.schemas.objects import StateType

from flows.runs.child_flow_runs.liveness import PROMPT_SECONDS, ChildRun, Life


def test_a_child_that_waits_for_a_worker_is_not_given_up() -> None:
    life = Life(10)
    waiting = [(state, now) for state in (None, StateType.SCHEDULED) for now in (0, 100, 100_000)]
    assert not any(life.is_over(None, state, now) for state, now in waiting)


def test_a_child_that_goes_silent_is_given_up_and_one_that_beats_is_not() -> None:
    life = Life(10)
    beats = [(b"1", 5), (b"2", 14), (b"2", 24), (b"3", 24.5), (b"3", 34.5)]
    assert not any(life.is_over(sign, StateType.RUNNING, now) for sign, now in beats)
    assert life.is_over(b"3", StateType.RUNNING, 34.6)
    assert not life.is_over(b"4", StateType.RUNNING, 40)  # it was only slow


def test_child_that_dies_before_its_first_sign_is_given_up() -> None:
    life = Life(10)
    assert not life.is_over(None, StateType.PENDING, 100)
    assert not life.is_over(None, StateType.PENDING, 150)  # its container is being made
    assert not life.is_over(None, StateType.RUNNING, 151)
    assert life.is_over(None, StateType.RUNNING, 161.1)
    assert Life(10).is_over(None, StateType.PENDING, 0) is False
    stuck = Life(10)
    stuck.is_over(None, StateType.PENDING, 0)
    assert stuck.is_over(None, StateType.PENDING, 50.1)
    assert not stuck.is_over(b"1", StateType.PENDING, 50.2)  # what it shows counts more than what Prefect says


@pytest.mark.parametrize("mark", [StateType.CRASHED, StateType.FAILED, StateType.COMPLETED])
def test_child_marked_dead_by_prefect_is_given_up_only_without_new_signs(mark: StateType) -> None:
    life = Life(60)
    assert not any(life.is_over(b"%d" % beat, mark, beat * 9) for beat in range(100))
    assert not life.is_over(b"99", mark, 99 * 9 + 10)
    assert life.is_over(b"99", mark, 99 * 9 + 10.1)


def test_mark_by_prefect_is_believed_later_while_storage_hid_the_child() -> None:
    """Whatever kept its signs from us may have kept its heartbeats from Prefect."""
    life = Life(60)
    life.is_over(b"1", StateType.CRASHED, 0)
    life.excuse(300)
    assert not life.is_over(b"1", StateType.CRASHED, 360)
    assert life.is_over(b"1", StateType.CRASHED, 360.1)
    assert not life.is_over(b"2", StateType.CRASHED, 361)
    assert life.is_over(b"2", StateType.CRASHED, 371.1)  # seen again: believed as ever


def test_child_marked_dead_before_its_first_sign_is_given_a_moment() -> None:
    life = Life(60)
    assert not life.is_over(None, StateType.RUNNING, 0)
    assert not life.is_over(None, StateType.CRASHED, 50)
    assert not life.is_over(None, StateType.CRASHED, 60)
    assert life.is_over(None, StateType.CRASHED, 60.1)


@pytest.mark.parametrize(("look_seconds", "silent"), [(2.0, True), (32.0, False)])
def test_storage_outage_does_not_count_as_silence_of_a_child(look_seconds: float, silent: bool) -> None:
    watched = child()
    watched.sign, watched.state = b"1", StateType.RUNNING
    watched.pass_time(1, is_paused=False)
    assert not watched.is_lost()
    watched.pass_time(1 + 32, is_paused=False, blind_seconds=look_seconds - PROMPT_SECONDS)
    assert watched.is_lost() is silent


def child(wait_seconds: float | None = None) -> ChildRun:
    return ChildRun("place", UUID(int=1), Life(10), wait_seconds, created_at=0, looked_at=0, asked_at=0)


def looks(watched: ChildRun, times: Iterable[float], *, is_paused: bool = False) -> list[tuple[bool, bool]]:
    """Whether it is given up for silence, and for want of a worker, at each of these times."""
    found = []
    for now in times:
        watched.pass_time(now, is_paused=is_paused)
        found.append((watched.life.is_over(watched.sign, watched.state, now), watched.waits_too_long(now)))
    return found


def test_pause_counts_neither_as_silence_nor_as_waiting() -> None:
    """A worker has the child, whose start is held; nothing of it is to be seen until the pause has ended."""
    held = child(wait_seconds=20)
    held.state = StateType.RUNNING
    assert looks(held, range(1, 9)) == [(False, False)] * 8
    assert looks(held, range(10, 5001, 10), is_paused=True) == [(False, False)] * 500
    assert looks(held, [5001, 5003]) == [(False, False)] * 2  # as if these were the seconds 9 and 11
    assert looks(held, [5004, 5013]) == [(True, False), (True, True)]


def test_working_child_is_watched_under_a_pause() -> None:
    working = child(wait_seconds=5)
    working.sign, working.state = b"1", StateType.RUNNING
    assert looks(working, [1, 10.9, 11.1], is_paused=True) == [(False, False), (False, False), (True, False)]


def test_a_served_but_busy_pool_is_waited_for() -> None:
    """Unless the workflow sets a bound. That nobody serves a pool the domain sees, and fails the run."""
    days = [number * 3600.0 for number in range(100)]
    assert looks(child(), days) == [(False, False)] * 100
    assert looks(child(wait_seconds=7200), days)[:4] == [(False, False)] * 3 + [(False, True)]
