"""An event loop whose clock jumps to whatever is due next: minutes of waiting pass at once, and always alike."""

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Jump(selectors.DefaultSelector):
    """Never waits: the clock goes on instead."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.ahead += max(0.0, timeout or 0.0)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """Stands in for the module `time` too, where only `monotonic` is asked."""

    def __init__(self) -> None:
        self._jump = _Jump()
        self._began = time.monotonic()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._began + self._jump.ahead

    def monotonic(self) -> float:
        return self.time()

    @classmethod
    def run(cls, work: "Coroutine[Any, Any, Result]") -> Result:
        """What the work returns."""
        loop = cls()
        try:
            return loop.run_until_complete(work)
        finally:
            loop.close()
