"""What a process holds, so that a test can say what is new. What others leave behind may end meanwhile."""

import threading
from contextlib import suppress
from pathlib import Path


def held() -> set[object]:
    """This process's open descriptors, by number and target, and its threads."""
    found: set[object] = set(threading.enumerate())
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists them
            found.add((path.name, str(path.readlink())))
    return found
