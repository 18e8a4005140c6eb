"""Bounds the memory, processor time and files that a GDAL try's own process may take, as it begins."""

import contextlib
import ctypes
import faulthandler
import resource
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PR_SET_PDEATHSIG: Final = 1
MEGABYTE: Final = 2**20
FIRST_VICTIM: Final = "800"


def limit(limits: Mapping[str, int]) -> None:
    """Die with the parent, leave no core, and take no more than a try may."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    faulthandler.enable()
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, limits["memory_mb"] * MEGABYTE),
        (resource.RLIMIT_CPU, limits["cpu_seconds"]),
        (resource.RLIMIT_FSIZE, limits["file_mb"] * MEGABYTE),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
    ):
        _, hard = resource.getrlimit(what)
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # Only a limit below the hard one ends the process by the signal that tells what it was.
        resource.setrlimit(what, (allowed, hard if what == resource.RLIMIT_CPU else allowed))
    with contextlib.suppress(OSError):  # where memory runs out all the same, the try goes before its flow
        Path("/proc/self/oom_score_adj").write_text(FIRST_VICTIM)
