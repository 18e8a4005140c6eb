"""How a fan-out's items are handed out to several processes: by need, in chunks that become smaller. Pure.

Nobody deals them out. The chunks are cut once, whoever has room takes the next one, and what a process that died had
taken is offered again. So a process that comes late, or is slow, holds up a small chunk at most.
"""

import math
from collections.abc import Collection, Iterator, Sequence

PART = 4  # a chunk is the fourth part of what each would have of the rest
PAYS_SECONDS = 5.0  # of work, by which a further process must shorten a fan-out: starting it takes a second or two


def chunk_sizes(count: int, takers: int) -> list[int]:
    """Cut so many items for so many takers: each chunk no larger than the one before, the last ones of one item."""
    sizes = list[int]()
    left = count
    while left:
        sizes.append(max(1, left // (PART * max(takers, 1))))
        left -= sizes[-1]
    return sizes


def chunk_name(number: int, offer: int = 0) -> str:
    """How a chunk is called: by its number, and by the offer, where it was offered before."""
    return f"{number:06d}.{offer}" if offer else f"{number:06d}"


def chunk_number(name: str) -> int:
    """The number of the chunk of this name."""
    return int(name.partition(".")[0])


def free(chunks: int, offered_again: Collection[str], taken: Collection[str]) -> Iterator[str]:
    """The chunks that nobody has taken, in the order in which to try: those never taken come first."""
    names = (chunk_name(number) for number in range(chunks))
    return (name for name in (*names, *sorted(offered_again)) if name not in taken)


def takers_at_first(
    count: int, serving: int, at_once: int, *, bound: int | None = None, declared: int | None = None
) -> int:
    """How many child runs a fan-out on another pool begins with: as many as workers serve it, where there is work.

    A further one pays where those before it would have items waiting. What a workflow declares is done as it says.
    """
    wanted = declared or max(1, min(serving, math.ceil(count / max(at_once, 1))))
    return max(1, min(wanted, count, bound or wanted))


def places(bound: int | None, takers: int) -> list[int | None]:
    """How many items each taker does at once, so that all of them together do as many as the fan-out allows."""
    if bound is None:
        return [None] * takers
    return [(number + 1) * bound // takers - number * bound // takers for number in range(takers)]


def helpers_that_pay(left: int, ended: int, at_once: int, seconds: float, others: int) -> int:
    """How many other workers should help with a fan-out that one process has worked on for so many seconds.

    By its own pace so far; where nothing has ended yet, what is under way takes that long at least.
    """
    if left <= 0 or seconds <= 0:
        return 0
    per_second = max(ended, min(at_once, left)) / seconds
    return max(0, min(others, left, int(left / per_second // PAYS_SECONDS)))


def offers(owned: Sequence[str], lacking: Collection[int], before: Collection[str]) -> list[str]:
    """The new names under which chunks are offered again that a process took and did not finish."""
    numbers = dict.fromkeys(chunk_number(name) for name in owned)
    made = [chunk_number(name) for name in before]
    return [chunk_name(number, made.count(number) + 1) for number in numbers if number in lacking]
