"""How long a run rests before its next attempt: what ended the last one may not be over. Pure."""

from typing import Final

FIRST_SECONDS: Final = 10.0
FACTOR: Final = 4.0
LONGEST_SECONDS: Final = 300.0


def pause_seconds(ended: int, spread: float, first_seconds: float = FIRST_SECONDS) -> float:
    """The pause after so many attempts that came to nothing, the first one included. `spread` is 0 to 1.

    It lasts half to one and a half times its length: those that ended together must not come back together.
    """
    return min(first_seconds * FACTOR ** (max(ended, 1) - 1), LONGEST_SECONDS) * (0.5 + spread)
