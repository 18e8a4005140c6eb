"""What follows when a run waits for a pool: whether to say that nobody serves it, and when to give up. Pure."""

from collections.abc import Mapping
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


def too_large_in_words(
    pool: str, needs: Mapping[str, float] | None, largest: Mapping[str, float | None] | None
) -> str | None:
    """Say what no host of the pool has enough of; None where there is no worker at all, or nothing is asked."""
    if not needs or largest is None:
        return None
    units = {"memory_mb": "MB of memory", "cpus": "processors", "gpu": "GPUs"}
    over = [
        f"{needs[name]:,.10g} {unit} (the largest has {largest[name] or 0:,.10g})"
        for name, unit in units.items()
        if name in needs and largest.get(name) is not None and needs[name] > (largest[name] or 0)
    ]
    asked = over or [f"{needs[name]:,.10g} {unit} together" for name, unit in units.items() if name in needs]
    return f"No host of the pool {pool} has room for what a try needs: {' and '.join(asked)}."


def gap_seconds(silence_seconds: float) -> float:
    """Return after how long without listening beacons count anew. A shorter gap costs a beacon or none."""
    return silence_seconds / 2


def may_judge(listening_seconds: float, silence_seconds: float) -> bool:
    """Whether a missing beacon means a missing worker: only once beacons could be heard for long enough."""
    return listening_seconds >= silence_seconds
