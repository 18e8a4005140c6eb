"""Submissions about the same wait here for the one ahead of them, without a connection: ten that waited for one that
hangs would leave none for others. Across processes, the locks of the database make them take turns.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

from domain.contracts.submissions import SubmissionCreate
from domain.errors import SubmissionUnderWay
from domain.rules import identity

LEAST_SECONDS = 0.05  # for locks, where the whole wait was spent here
AGAIN_SECONDS = 1


@dataclass(eq=False)
class Turn:
    """One submission and its wait. `late` is the submission for which it waited too long."""

    submission: SubmissionCreate
    until: float
    late: "Turn | None" = None
    holder: UUID | None = None  # the request that holds what this one needs, itself where it does
    in_vain: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def seconds_left(self) -> float:
        return max(LEAST_SECONDS, self.until - time.monotonic())

    def note_locks_held(self) -> None:
        """Note that the submission holds its locks, so that those behind it can be told its id."""
        self.holder = self.submission.request_id

    def refusal(self, holder: UUID | None) -> SubmissionUnderWay:
        """Return the refusal where the locks could not be had, and let the submission behind it try next."""
        self.in_vain, self.holder = True, holder
        return under_way(holder)


def under_way(holder: UUID | None) -> SubmissionUnderWay:
    """Return the refusal after the wait: nothing was accepted, so the same call may be repeated."""
    detail = "A submission with this key, or about this asset, is being accepted still. Nothing was accepted of yours."
    if holder is None:
        return SubmissionUnderWay(f"{detail} Send the same again.", retry_after_seconds=AGAIN_SECONDS)
    told = f"{detail} Send the same again, or ask for the status of {holder}."
    return SubmissionUnderWay(told, retry_after_seconds=AGAIN_SECONDS, request_id=str(holder))


class AcceptanceTurns:
    """The submissions that this process is accepting, by key and by asset."""

    def __init__(self, wait_seconds: float) -> None:
        self.wait_seconds = wait_seconds
        self._ahead: dict[str, Turn] = {}

    @asynccontextmanager
    async def taken(self, submission: SubmissionCreate) -> AsyncIterator[Turn]:
        """Wait for the submission's turn; others about the same key or asset wait until the block ends."""
        names = _names(submission)
        turn = Turn(submission, time.monotonic() + self.wait_seconds)
        turn.late = await self._wait_for_turn(names, turn)
        led = [name for name in names if name not in self._ahead]
        self._ahead |= dict.fromkeys(led, turn)
        try:
            yield turn
        finally:
            for name in led:
                del self._ahead[name]
            turn.over.set()

    async def _wait_for_turn(self, names: Sequence[str], turn: Turn) -> Turn | None:
        """Wait until the submission ahead is over. Where that one gave up, one of those behind it is next."""
        while ahead := next((self._ahead[name] for name in names if name in self._ahead), None):
            try:
                await asyncio.wait_for(ahead.over.wait(), turn.until - time.monotonic())
            except TimeoutError:
                return ahead
            if not ahead.in_vain:  # its rows say all: those behind it need not take turns here, and crowd at its lock
                turn.until = time.monotonic() + self.wait_seconds
                return None
        return None


def _names(submission: SubmissionCreate) -> list[str]:
    asset = identity.asset_id(submission.platform_id, submission.refs)
    key = submission.idempotency_key
    return [f"asset {asset}", *([] if key is None else [f"key {submission.platform_id} {key}"])]
