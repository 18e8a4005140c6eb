"""Remembers answers to questions that anybody may ask at any rate. Each process asks once for all callers."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from domain.rules.database_timeouts import PING_SECONDS


@dataclass
class _Question:
    asking: asyncio.Task[bool]
    answered_at: float | None = None


@dataclass
class Remembered:
    """Keeps an answer for this long. Callers wait together while it is being found."""

    seconds: float = 1.0
    clock: Callable[[], float] = time.monotonic
    patience_seconds: float = PING_SECONDS
    _questions: dict[str, _Question] = field(default_factory=dict)

    async def answer(self, name: str, ask: Callable[[], Awaitable[bool]]) -> bool:
        """The remembered answer to the question of this name, or a new one."""
        known = self._questions.get(name)
        if known is None or self._is_over(known):
            known = self._questions[name] = _Question(asyncio.create_task(self._ask_and_note(name, ask)))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.patience_seconds):
                return await asyncio.shield(known.asking)  # who leaves leaves the answer to the others
        return False  # what hangs does not answer

    def _is_over(self, question: _Question) -> bool:
        answered = question.answered_at
        return question.asking.cancelled() or (answered is not None and self.clock() - answered >= self.seconds)

    async def _ask_and_note(self, name: str, ask: Callable[[], Awaitable[bool]]) -> bool:
        try:
            return await ask()
        finally:
            self._questions[name].answered_at = self.clock()
