"""Since when silence counts: every pattern of processes that listen, pause, die and begin, against a count by hand."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.rules.listening import Moment, Span, moment
from domain.rules.reconcile import GAPS_UNTIL_LOST, Patience

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
GAP = 2


def at(second: float) -> datetime:
    return BEGAN + timedelta(seconds=second)


def spans(there: Sequence[bool]) -> Iterator[Span]:
    """What a process notes that is there in these seconds: after a gap of its own it begins another span."""
    since = noted = None
    for second, listens in enumerate(there):
        if not listens:
            continue
        if since is None or noted is None or second - noted > GAP:
            if since is not None and noted is not None:
                yield Span(at(since), at(noted))
            since = second
        noted = second
    if since is not None and noted is not None:
        yield Span(at(since), at(noted))


def counted(now: int, fleet: Sequence[Sequence[bool]]) -> int:
    """The same by going back from now, second by second, while somebody noted something within a gap."""
    heard = [second for second in range(now + 1) if any(there[second] for there in fleet if second < len(there))]
    since = now
    for second in reversed(heard):
        if since - second > GAP:
            break
        since = second
    return since


def judged(now: int, fleet: Sequence[Sequence[bool]]) -> Moment:
    noted = [span for there in fleet for span in spans(there)]
    return moment(at(now), noted, GAP)


@pytest.mark.parametrize("processes", [1, 2])
def test_silence_counts_from_the_end_of_the_last_gap_that_all_processes_share(processes: int) -> None:
    seconds, tried = 10 // processes + 1, 0
    for bits in product([False, True], repeat=seconds * processes):
        fleet = [bits[number * seconds : (number + 1) * seconds] for number in range(processes)]
        for now in (seconds - 1, seconds + 1, seconds + 5):
            assert judged(now, fleet).since == at(counted(now, fleet)), (fleet, now)
            tried += 1
    assert tried == 3 * 2 ** (seconds * processes)


patterns = st.lists(st.lists(st.booleans(), min_size=30, max_size=30), min_size=1, max_size=4)


@given(patterns)
def test_silence_of_any_fleet_agrees_with_a_count_by_hand(fleet: list[list[bool]]) -> None:
    assert judged(31, fleet).since == at(counted(31, fleet))


@given(patterns, st.integers(GAP + 1, 25), st.integers(1, 29))
def test_attempt_is_not_taken_for_lost_because_of_a_gap_in_listening(
    fleet: list[list[bool]], length: int, ended: int
) -> None:
    """Whoever was there before: a loss threshold after the last second in which nobody was, not sooner."""
    for there in fleet:
        there[max(0, ended - length) : ended] = [False] * (ended - max(0, ended - length))
    if ended - max(0, ended - length) < GAP + 1:
        return
    for now in range(ended, 40):
        noted_until_now = [there[: now + 1] for there in fleet]
        assert judged(now, noted_until_now).seconds <= now - ended


def test_silence_counts_from_now_where_no_process_ever_listened() -> None:
    assert moment(at(100), [], GAP) == Moment(at(100), at(100))


def test_process_that_takes_over_within_a_gap_inherits_what_was_heard() -> None:
    handed_over = [Span(at(0), at(50)), Span(at(50 + GAP), at(99))]
    assert moment(at(100), handed_over, GAP).since == at(0)
    too_late = [Span(at(0), at(50)), Span(at(51 + GAP), at(99))]
    assert moment(at(100), too_late, GAP).since == at(51 + GAP)


def test_gap_of_one_process_does_not_hide_what_another_process_heard() -> None:
    cut_off = [Span(at(0), at(20)), Span(at(90), at(100))]
    assert moment(at(100), cut_off, GAP).since == at(90)
    assert moment(at(100), [*cut_off, Span(at(5), at(100))], GAP).since == at(0)


def test_listening_notes_from_the_future_are_ignored() -> None:
    """The database's clock was put back by an hour; who noted last is dead."""
    assert moment(at(100), [Span(at(0), at(3700))], GAP).since == at(100)
    assert moment(at(100), [Span(at(0), at(100 + GAP))], GAP).since == at(0)


def test_a_gap_is_shorter_than_what_makes_an_attempt_lost_and_longer_than_a_heartbeat() -> None:
    patience = Patience()
    assert patience.gap * GAPS_UNTIL_LOST == patience.lost
    assert patience.heartbeat < patience.gap
