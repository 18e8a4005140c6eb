"""Whether the stack's folder can be used, and whether its secrets are kept from others."""

import os
import stat
from pathlib import Path

from deployments.doctor.finding import Finding, ok, wrong
from deployments.stack.state import StackState

PRIVATE_FILES = ("secrets.json", "credentials.json", "stack.json", "redis.conf")
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def folder(state: StackState) -> Finding:
    """Whether a stack can write there, and nobody else can read what it keeps."""
    place = existing(state.root)
    if not os.access(place, os.W_OK | os.X_OK):
        advice = "Give it to the user who runs the stack, or set CAIRN_STATE to a folder of theirs."
        return wrong("state folder", f"{place} cannot be written to", advice)
    if place != state.root:
        return ok("state folder", f"{state.root} will be made")
    if loose := readable_by_others(state.root):
        paths = " ".join(str(path) for path in loose)
        return wrong("state folder", f"others may read {', '.join(path.name for path in loose)}", f"chmod 600 {paths}")
    return ok("state folder", str(state.root))


def readable_by_others(root: Path) -> list[Path]:
    """Files with secrets that are not the owner's alone."""
    found = [root / name for name in PRIVATE_FILES if (root / name).exists()]
    return [path for path in found if path.stat().st_mode & OTHERS]


def existing(path: Path) -> Path:
    """The path itself, or the nearest folder above it that is there."""
    return path if path.exists() else existing(path.parent)
