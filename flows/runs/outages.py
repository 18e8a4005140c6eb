"""Tells what is ours and away for now, a disk, a storage or a database, from a failure of the work that needs it.

Such a failure is waited out under the work and is no try of it (`flows.tries.time_budget` says for how long). Knows no
library: a store or handler that speaks to something that can be away raises `Outage` itself; here remain bare faults of
disks.
"""

import errno
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Final, TypeVar

from flows.handlers.errors import HandlerError, Outage
from flows.storage import CommonStore
from flows.tries.time_budget import OUTAGE_SECONDS, Outlasting

Result = TypeVar("Result")
# A disk that is full, broken or gone, on whichever of ours it happens. Faults of sockets are not among them: those may
# be of a source outside, and whoever opens one says what it was.
_OF_DISKS: Final = {
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EIO", "EROFS", "ESTALE", "ENOTCONN", "EHOSTDOWN", "ENODEV", "ENFILE")
}
_FULL: Final = "No space left on device"  # as native libraries say it, which lose the number


def outage_of(error: BaseException) -> Outage | None:
    """The outage that this failure shows, or None where the work itself failed."""
    if isinstance(error, Outage):
        return error
    number = error.errno if isinstance(error, OSError) else None
    if number is not None and number in _OF_DISKS:
        return Outage(f"A disk of the platform cannot be used: {errno.errorcode[number]}.")
    if not isinstance(error, HandlerError) and _FULL in str(error):
        return Outage("A disk of the platform cannot be used: ENOSPC.")
    return None


@dataclass(frozen=True)
class PatientStore:
    """Run storage as flow runs use it, in threads: an outage is waited out, until the run is to stop.

    An append is not repeated: its first part may have arrived (`flows.memory.ledger` goes on in another file).
    """

    store: CommonStore
    stop: Event = field(default_factory=Event)
    allowed_seconds: float = OUTAGE_SECONDS

    def size_bytes(self, name: str) -> int | None:
        return self.outlast(lambda: self.store.size_bytes(name))

    def read_bytes(self, name: str) -> bytes:
        return self.outlast(lambda: self.store.read_bytes(name))

    def write_bytes(self, name: str, content: bytes) -> None:
        self.outlast(lambda: self.store.write_bytes(name, content))

    def read_range(self, name: str, start: int, length: int) -> bytes:
        return self.outlast(lambda: self.store.read_range(name, start, length))

    def write_new(self, name: str, content: bytes) -> bool:
        return self.outlast(lambda: self.store.write_new(name, content))

    def append(self, name: str, content: bytes) -> None:
        self.store.append(name, content)

    def names(self, folder: str) -> list[str]:
        return self.outlast(lambda: self.store.names(folder))

    def outlast(self, call: Callable[[], Result]) -> Result:
        """Make the call, again while what it needs is away, and return what it returns."""
        waiting = Outlasting(self.allowed_seconds)
        while True:
            try:
                return call()
            except Exception as error:
                away = outage_of(error)
                pause = None if away is None else waiting.pause(time.monotonic(), random.random())  # noqa: S311 - a spread
                if pause is None or self.stop.wait(pause):
                    raise
