"""Whether a child run lives: how it shows that, and what its parent makes of what it sees.

A child shows that it lives by rewriting a small blob. Prefect alone cannot tell: a flow run whose worker was killed
with it stays `Running` for ever, and one whose heartbeats got lost is marked `Crashed` while it works. So Prefect's
word makes it quicker to give a child up that shows nothing new, and never ends one that does.
"""

import asyncio
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import StateType

from flows.handlers.errors import Stopped
from flows.runs.child_flow_runs.protocol import sign_of_life, stop_mark
from flows.runs.stopping import Stop
from flows.storage import SmallStore
from flows.storage.threads import in_sign_thread

log = logging.getLogger("cairn.children")
BEAT_SECONDS = 2.0
BELIEVED_SECONDS = 10.0  # of a child without a new sign: Prefect's word that it is over may be false for so long
SURE_SECONDS = BELIEVED_SECONDS / 2  # after a sign of life that was stored: so long nobody can have given up the child
PROMPT_SECONDS = 2.0  # of a look that took longer nobody knows when it saw what it saw
# A parent is told when a child begins and when it has left its outcome. These looks find what nobody told: children
# that died, or that stopped where the domain was away. Nobody looks more seldom than often enough to notice silence.
FIRST_LOOK_SECONDS = 0.1
LONGEST_LOOK_SECONDS = 5.0
QUEUED_LOOK_SECONDS = 15.0
LOOKS_A_SILENCE = 4
TO_BEGIN = 5  # times the silence that a child is allowed while its worker prepares it
OVER = frozenset({StateType.COMPLETED, StateType.FAILED, StateType.CRASHED, StateType.CANCELLED})


@dataclass
class Life:
    """Whether a child still lives, by how long its sign has been the same. No clock but the watcher's own is used.

    A child may die before its first sign: from when Prefect says that a worker has it, silence counts too. A worker
    that starts a container for it is given longer, as is a child that had to wait for Prefect.
    """

    silence_seconds: float
    _sign: tuple[bytes | None, StateType | None] = (None, None)
    _seen_at: float = 0.0
    _was_away: bool = False  # whether storage or the child's start was, since the last sign
    _begins_late: bool = False  # likewise, whether it waited for Prefect

    def is_over(self, sign: bytes | None, state: StateType | None, now: float) -> bool:
        """True once a child that a worker has taken up has shown nothing new for too long."""
        if sign is None and state not in {StateType.PENDING, StateType.RUNNING, *OVER}:
            return False
        seen = (sign, state if sign is None else None)
        if seen != self._sign:
            self._sign, self._seen_at, self._was_away, self._begins_late = seen, now, False, False
        return now - self._seen_at > self._patience(seen[1], state)

    def excuse(self, seconds: float, *, for_prefect: bool = False) -> None:
        """Let so much of its silence not count. Prefect may have missed as much: its word is believed later."""
        self._seen_at += seconds
        self._was_away = True
        self._begins_late |= for_prefect

    def _patience(self, before_first_sign: StateType | None, state: StateType | None) -> float:
        if state in OVER and not self._was_away:
            return min(BELIEVED_SECONDS, self.silence_seconds)
        is_late = before_first_sign is StateType.PENDING or (before_first_sign is not None and self._begins_late)
        return self.silence_seconds * (TO_BEGIN if is_late else 1)


@dataclass
class ChildRun:
    """One child run, as its parent watches it."""

    place: str
    flow_run_id: UUID
    life: Life
    wait_seconds: float | None = None
    created_at: float = field(default_factory=time.monotonic)
    looked_at: float = field(default_factory=time.monotonic)
    asked_at: float = field(default_factory=time.monotonic)  # as of when Prefect's word was taken last
    seen_at: float = field(default_factory=time.monotonic)
    sign: bytes | None = None
    state: StateType | None = None
    said: str = ""  # how Prefect calls its state
    is_unheard: bool = False  # whether Prefect gave no answer when it was asked last
    _pause: float = 0.0

    def hurry(self) -> None:
        """Something has happened: what follows from it is to be seen soon."""
        self._pause = 0.0

    def next_look(self, now: float) -> float:
        """When to look again: soon at first, then ever more seldom."""
        self._pause = min(max(FIRST_LOOK_SECONDS, 1.6 * self._pause), self._longest_pause)
        due = now + self._pause
        waits_until = self.created_at + self.wait_seconds if self.wait_seconds is not None and not self.sign else due
        return min(due, max(waits_until, now + FIRST_LOOK_SECONDS))

    @property
    def _longest_pause(self) -> float:
        if self.state in OVER:  # nothing more is expected of it but its outcome
            return BELIEVED_SECONDS / LOOKS_A_SILENCE
        longest = QUEUED_LOOK_SECONDS if self.sign is None else LONGEST_LOOK_SECONDS
        return min(longest, self.life.silence_seconds / LOOKS_A_SILENCE)

    def pass_time(self, now: float, *, is_paused: bool, blind_seconds: float = 0.0) -> None:
        """Time goes on. Where a pause or an outage of Prefect keeps it from beginning, it is neither late nor silent.

        Nor was it silent while storage did not say what it does: its own signs were not taken then, either.
        """
        elapsed, self.looked_at = now - self.looked_at, now
        if (is_paused or self.is_unheard) and self.sign is None:
            self.created_at += elapsed
            self.life.excuse(elapsed, for_prefect=self.is_unheard)
        elif blind_seconds > 0:
            self.life.excuse(min(elapsed, blind_seconds))

    def waits_too_long(self, now: float) -> bool:
        """Whether no worker took it up in time. Without a bound the domain decides, which knows who serves."""
        return self.wait_seconds is not None and self.sign is None and now - self.created_at > self.wait_seconds

    def is_lost(self) -> bool:
        """Whether it died, as far as its parent could see when it looked last."""
        return self.life.is_over(self.sign, self.state, self.looked_at)

    @property
    def counts(self) -> tuple[int, int]:
        """How many of its items have ended well, and how many badly."""
        return self._told.get("done", 0), self._told.get("failed", 0)

    @property
    def has_handed_over(self) -> bool:
        """Whether its last word was that another one is to go on. Prefect may hear of it later, or never."""
        return bool(self._told.get("handed_over"))

    @property
    def _told(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.sign) if self.sign else {}
        return told


async def tell_hand_over(store: SmallStore, place: str) -> None:
    """Leave word that this child's worker ends. Where storage does not take it, the child's state in Prefect tells."""
    try:
        await in_sign_thread(store.write_bytes, sign_of_life(place), json.dumps({"handed_over": True}).encode())
    except Exception as error:  # noqa: BLE001 - whatever a store raises
        log.warning("word of a hand-over was not taken", extra={"child": place, "error": str(error)})


@dataclass
class Lease:
    """What a child holds as long as its signs of life are stored and nobody has told it to stop: the right to its work.

    Its parent takes the work away from a child that has shown no sign for a while, and tells it so before anybody else
    gets it. A child that was cut off does not know: before it notes down a result, it makes sure.
    """

    store: SmallStore
    place: str
    counts: Callable[[], tuple[int, int]]
    stop: Stop
    sure_seconds: float = SURE_SECONDS
    clock: Callable[[], float] = time.monotonic
    _beat: int = 0
    _sure_at: float = -math.inf
    _turn: Lock = field(default_factory=Lock)

    def renew(self) -> bool:
        """Rewrite the sign of life, and look whether the lease still holds. Called in threads."""
        with self._turn:
            began, (done, failed) = self.clock(), self.counts()
            self._beat += 1
            sign = {"beat": self._beat, "done": done, "failed": failed}
            self.store.write_bytes(sign_of_life(self.place), json.dumps(sign).encode())
            if self.store.size_bytes(stop_mark(self.place)) is not None:
                self._sure_at = -math.inf
                self.stop.set("over")
                return False
            self._sure_at = began
            return True

    @property
    def is_sure(self) -> bool:
        return self.clock() - self._sure_at <= self.sure_seconds

    def make_sure(self) -> None:
        """Raise where the work is no more this child's. Called in threads; asks storage only where it is long ago."""
        if not self.is_sure and not self.renew():
            raise Stopped("The work was given to another child run.")


@asynccontextmanager
async def showing_life(
    store: SmallStore,
    place: str,
    counts: Callable[[], tuple[int, int]],
    stop: Stop,
    silence_seconds: float = 2 * SURE_SECONDS,
) -> AsyncIterator[Lease]:
    """Rewrite the child's sign of life while the block runs, and see whether its parent wants it to stop.

    A beat that storage does not take is left out: the parent counts silence, and the next one may pass.
    """
    lease = Lease(store, place, counts, stop, min(SURE_SECONDS, silence_seconds / 2))

    async def beats() -> None:
        while True:
            try:
                await in_sign_thread(lease.renew)
            except Exception as error:  # noqa: BLE001 - whatever a store raises
                log.warning("a sign of life was not taken", extra={"child": place, "error": str(error)})
            await asyncio.sleep(BEAT_SECONDS)

    heart = asyncio.create_task(beats())
    try:
        yield lease
    finally:
        heart.cancel()
        await asyncio.gather(heart, return_exceptions=True)
