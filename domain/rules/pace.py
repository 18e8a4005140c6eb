"""How slow the other side of a connection may be. Pure; the clock is the caller's.

A deadline for the whole would cut off who sends or reads much, one for each piece would never end who drips.
"""

from dataclasses import dataclass, field

_OVER = 0.01  # of the slack: what is left of it comes near nothing and never quite there


@dataclass
class Pace:
    """How slow the other side may be: waiting uses up the slack, and moved bytes restore it."""

    slack_seconds: float
    bytes_per_second: float
    left_seconds: float = field(init=False)

    def __post_init__(self) -> None:
        self.left_seconds = self.slack_seconds

    def note(self, waited_seconds: float, moved_bytes: int) -> None:
        """Note for how long was waited, and how many bytes moved meanwhile."""
        left = self.left_seconds - waited_seconds + moved_bytes / self.bytes_per_second
        self.left_seconds = min(self.slack_seconds, left)

    @property
    def is_over(self) -> bool:
        """Whether the other side was too slow for too long."""
        return self.left_seconds <= self.slack_seconds * _OVER
