"""Whose fault the loss of a run's process was, as far as that can be known, and when enough is enough. Pure.

What dies with a run's process dies for the run's sake only if work of it was under way there. So an attempt that
vanished while its nodes waited, for a child run or for a place, is no evidence against it; nor is one of a fan-out
that has got on since the last one. Three that vanished under the same work are.
"""

from typing import Final

UNEXPLAINED: Final = 3  # times as many attempts where nothing speaks against the run: somebody looks in the end


def is_given_up(used: int, blamed: int, most: int) -> bool:
    """Whether the run gets no other attempt.

    `used` are its attempts that count, `blamed` the most of them that vanished under one and the same node, and
    `most` is how many attempts a run has.
    """
    return blamed >= most or used >= UNEXPLAINED * most
