"""How many threads a GDAL try may have at once: its kernel asks before each one, and waits for our answer.

A limit of the kernel's own (RLIMIT_NPROC) holds for all that a user runs on a machine, neighbours included, and never
for root. The try's process hands over the listener of its filter before it opens any file, and keeps none.
"""

import errno
import fcntl
import os
import select
import struct
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final

RECEIVE, SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV and _SEND
ASKED_BYTES: Final = 80  # of struct seccomp_notif
GO_ON: Final = 1
LOOK_MILLISECONDS: Final = 1000


class ThreadBound:
    """Answers one try's questions, in a thread of its own."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._closed = Event()
        self._thread: Thread | None = None

    def take(self, listener: int | None) -> None:
        """Answer it from now on: it is ours. The first is the process's own, any later one is a claim."""
        if listener is not None and self._thread is not None:
            os.close(listener)
        elif listener is not None:
            self._thread = Thread(target=self._serve, args=[listener], name="thread-bound", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """The try's process is gone, which ends our thread; where a kernel does not tell, it ends within a second."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(2 * LOOK_MILLISECONDS / 1000)

    def _serve(self, listener: int) -> None:
        """Where it is no listener at all, which a try may claim that was not counted, nothing is answered."""
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        try:
            with suppress(OSError):
                while not self._closed.is_set():
                    for _, events in poll.poll(LOOK_MILLISECONDS):
                        if not events & select.POLLIN:
                            return  # its last thread has ended
                        with suppress(FileNotFoundError, ProcessLookupError):  # who asked has died meanwhile
                            self._answer(listener)
        finally:
            os.close(listener)

    def _answer(self, listener: int) -> None:
        asked = bytearray(ASKED_BYTES)
        fcntl.ioctl(listener, RECEIVE, asked)
        question, pid = struct.unpack_from("=QI", asked)
        refused = threads_of(pid) >= self._most
        answer = struct.pack("=QqiI", question, 0, -errno.EAGAIN if refused else 0, 0 if refused else GO_ON)
        fcntl.ioctl(listener, SEND, answer)


def threads_of(pid: int) -> int:
    """How many threads the process of this one has."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("Threads:"):
            return int(line.split()[1])
    raise ProcessLookupError(pid)
