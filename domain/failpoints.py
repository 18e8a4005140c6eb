"""Places where a process can be told to die, for tests of what survives. Armed by CAIRN_FAILPOINT=name:once.

Death is SIGKILL: no handler runs, nothing is flushed. Unarmed, a place costs one comparison.
"""

import os
import signal

_ARMED = os.environ.get("CAIRN_FAILPOINT", "").partition(":")[0]

# Before and after every commit of the ways in and out; the harness goes through all of them.
NAMES = (
    "submit.before-commit",
    "submit.after-commit",
    "claim.before-commit",
    "claim.after-commit",
    "relay.created",
    "link.before-commit",
    "link.after-commit",
    "start.before-commit",
    "start.after-commit",
    "commit.before-commit",
    "commit.after-commit",
)
# The same of decisions, and between their steps: none of these may be seen by halves.
DECISIONS = (
    "approve.decided",
    "approve.replaced",
    "approve.catalogued",
    "approve.described",
    "approve.exported",
    "approve.before-commit",
    "approve.after-commit",
    "publish.written",
    "publish.before-commit",
    "publish.after-commit",
    "unpublish.decided",
    "unpublish.exported",
    "unpublish.words",
    "unpublish.withdrawn",
    "unpublish.described",
    "unpublish.before-commit",
    "unpublish.after-commit",
)


def hit(name: str) -> None:
    """End this process here if the environment names this failpoint."""
    if _ARMED and name == _ARMED:
        os.kill(os.getpid(), signal.SIGKILL)


def refuse_unknown() -> None:
    """Refuse a misspelt failpoint: its test would prove nothing."""
    if _ARMED and _ARMED not in NAMES + DECISIONS:
        raise ValueError(f"There is no failpoint {_ARMED!r}. There are: {', '.join(NAMES + DECISIONS)}.")
