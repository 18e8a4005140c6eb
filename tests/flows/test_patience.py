"""When a try is asked to leave and when it is given up: every order of a stop, a timeout and the end of the grace."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from flows.errors import Stopped, TimedOut
from flows.patience import Patience, Step

moments = some.lists(some.tuples(some.floats(0, 100), some.booleans()), min_size=1).map(
    lambda looks: sorted(looks, key=lambda look: look[0])
)


@given(looks=moments, timeout=some.floats(0.1, 100), grace=some.floats(0, 30))
def test_asked_once_and_given_up_after_the_grace(looks: list[tuple[float, bool]], timeout: float, grace: float) -> None:
    waiting = Patience(0.0, timeout, lambda: grace)
    asked_at = None
    for now, stopping in looks:
        step = waiting.look(now, stopping)
        if asked_at is None:
            assert (step is Step.ASK) == (stopping or now >= timeout)
            asked_at = now if step is Step.ASK else None
            if asked_at is not None:
                assert isinstance(waiting.why, Stopped if stopping else TimedOut)
        else:
            assert step is (Step.GIVE_UP if now >= asked_at + grace else Step.WAIT)
        assert 0 <= waiting.pause(now) <= 0.2


def test_what_came_after_its_time_counts_for_nothing() -> None:
    late, stopped, early = (Patience(0.0, 5.0) for _ in range(3))
    late.look(6.0, stopping=False)
    stopped.look(1.0, stopping=True)
    stopped.look(6.0, stopping=True)
    with pytest.raises(TimedOut, match=r"longer than its 5 s"):
        late.check()
    stopped.check()
    early.check()
