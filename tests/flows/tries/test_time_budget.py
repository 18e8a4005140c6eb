"""When a try is asked to leave and when it is given up: every order of a stop, a timeout and the end of the grace."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from flows.handlers.errors import Stopped, TimedOut
from flows.runs.stopping import Reason
from flows.tries import time_budget
from flows.tries.time_budget import TimeBudget, WaitStep, grace_seconds

moments = some.lists(some.tuples(some.floats(0, 100), some.booleans()), min_size=1).map(
    lambda looks: sorted(looks, key=lambda look: look[0])
)


@given(looks=moments, timeout=some.floats(0.1, 100), grace=some.floats(0, 30))
def test_try_past_its_time_is_asked_once_and_given_up_after_the_grace(
    looks: list[tuple[float, bool]], timeout: float, grace: float
) -> None:
    waiting = TimeBudget(0.0, timeout, lambda: grace)
    asked_at = None
    for now, stopping in looks:
        step = waiting.next_step(now, stopping)
        if asked_at is None:
            assert (step is WaitStep.ASK) == (stopping or now >= timeout)
            asked_at = now if step is WaitStep.ASK else None
            if asked_at is not None:
                assert isinstance(waiting.why, Stopped if stopping else TimedOut)
        else:
            assert step is (WaitStep.GIVE_UP if now >= asked_at + grace else WaitStep.WAIT)
        assert 0 <= waiting.seconds_to_next_step(now) <= 0.2


def test_result_after_its_time_budget_is_refused() -> None:
    late, stopped, early = (TimeBudget(0.0, 5.0) for _ in range(3))
    late.next_step(6.0, stopping=False)
    stopped.next_step(1.0, stopping=True)
    stopped.next_step(6.0, stopping=True)
    with pytest.raises(TimedOut, match=r"longer than its 5 s"):
        late.refuse_late_answer()
    stopped.refuse_late_answer()
    early.refuse_late_answer()


def test_a_stop_shortens_what_a_timeout_allows_and_never_lengthens_it() -> None:
    graces = {"timeout": 10.0, "stop": 4.0}
    for stopped_at, given_up_at in ((6.0, 10.0), (14.0, 15.0)):
        reason = "timeout"
        waiting = TimeBudget(0.0, 5.0, lambda: graces[reason])  # noqa: B023 - asked within this round
        assert waiting.next_step(5.0, stopping=False) is WaitStep.ASK
        reason = "stop"
        assert waiting.next_step(stopped_at, stopping=True) is WaitStep.WAIT
        assert waiting.next_step(given_up_at - 0.1, stopping=True) is WaitStep.WAIT
        assert waiting.next_step(given_up_at, stopping=True) is WaitStep.GIVE_UP


TELLING_SECONDS = 1.0  # what a flow run needs at least to tell the domain and Prefect how it ended


@pytest.mark.parametrize(
    ("reason", "run_seconds"),
    [("draining", time_budget.RUNS_DRAIN_SECONDS), ("cancelled", time_budget.RUN_CANCEL_SECONDS)],
)
def test_a_handlers_grace_ends_before_its_worker_ends_the_run(reason: Reason, run_seconds: float) -> None:
    """Else a try that cannot be interrupted takes its flow run along: lost and counted, not handed over."""
    assert grace_seconds(reason) + time_budget.TRY_LEAVE_SECONDS + TELLING_SECONDS <= run_seconds


def test_grace_periods_of_workers_and_cancelled_runs_fit_their_limits() -> None:
    assert time_budget.RUNS_DRAIN_SECONDS + time_budget.RUNS_ENDED_SECONDS + TELLING_SECONDS < 30
    assert time_budget.CANCEL_LOOK_SECONDS + time_budget.RUN_CANCEL_SECONDS + TELLING_SECONDS < 10
    assert grace_seconds("fenced") + time_budget.TRY_LEAVE_SECONDS < 10
    assert grace_seconds(None) <= 10
