"""Runs our own handling before the server's when the process is told to stop."""

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


def on_stop(act: Callable[[], None]) -> None:
    """Call this before the server's own handling of a stop. In a host's thread, signals are the host's."""
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        servers = signal.getsignal(number)

        def handle(received: int, frame: FrameType | None, servers: Any = servers) -> None:
            loop.call_soon_threadsafe(act)
            if callable(servers):
                servers(received, frame)

        signal.signal(number, handle)
