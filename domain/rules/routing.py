"""What follows when a run waits for a pool: whether to say that nobody serves it, and when to give up. Pure."""

from enum import Enum


class PoolNotice(Enum):
    """What to do about one run."""

    MARK = "say that nobody serves the pool it waits for"
    CLEAR = "the pool is served again, or the run waits no more: take the mark back"
    FAIL = "nobody has come for so long: give the run up"
    RELEASE = "a worker has the handlers that it awaits: let it be sent"
    LEAVE = "nothing has changed"


def judge(
    is_waiting_in_vain: bool, marked_seconds: float | None, allowed_seconds: float, *, is_awaiting: bool = False
) -> PoolNotice:
    """Decide about a run marked for this long, or not at all. A run that awaits a worker is not sent."""
    if is_awaiting and not is_waiting_in_vain:
        return PoolNotice.RELEASE
    if marked_seconds is None:
        return PoolNotice.MARK if is_waiting_in_vain else PoolNotice.LEAVE
    if not is_waiting_in_vain:
        return PoolNotice.CLEAR
    return PoolNotice.FAIL if marked_seconds >= allowed_seconds else PoolNotice.LEAVE


def gap_seconds(silence_seconds: float) -> float:
    """Return after how long without listening beacons count anew. A shorter gap costs a beacon or none."""
    return silence_seconds / 2


def may_judge(listening_seconds: float, silence_seconds: float) -> bool:
    """Whether a missing beacon means a missing worker: only once beacons could be heard for long enough."""
    return listening_seconds >= silence_seconds
