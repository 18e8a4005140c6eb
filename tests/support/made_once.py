"""What takes long to make and is the same for every process of one run of the tests: the first that asks makes it.

The others wait for it, and each takes a copy. It lies in a folder that ends with the run.
"""

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

FOLDER = "TESTS_MADE_ONCE"


def begin() -> Callable[[], None]:
    """Make the folder, for processes that are started from now on too; gives what removes it."""
    folder = tempfile.mkdtemp(prefix="cairn-made-")
    Path(folder).chmod(0o711)  # a database's own user passes through
    os.environ[FOLDER] = folder
    return lambda: shutil.rmtree(folder, ignore_errors=True)


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name, as `make` filled it. What fails half way is made anew by the next that asks."""
    if FOLDER not in os.environ:  # outside pytest
        atexit.register(begin())
    root = Path(os.environ[FOLDER])
    whole, half = root / name, root / f"{name}.half"
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir(mode=0o711)
            make(half)
            half.rename(whole)
    return whole
