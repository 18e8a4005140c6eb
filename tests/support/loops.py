"""Whose coroutine holds up the event loop: a test may call a store as it likes, what it tests may not."""

import inspect
import sys
from pathlib import Path
from types import FrameType

TESTS = str(Path(__file__).resolve().parents[1])


def is_tests_own_call() -> bool:
    """Whether the innermost coroutine that waits for the current call is one of the tests'."""
    frame: FrameType | None = sys._getframe(1)
    waits = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    while frame is not None and not frame.f_code.co_flags & waits:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(TESTS)
