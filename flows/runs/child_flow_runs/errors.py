"""How a child run can fail its run: died, was refused, was cancelled, or was never taken up."""

from flows.handlers.errors import Broken

HANDLER_MISSING = "handler-missing"


class ChildLost(Broken):
    """A child run died, or ended without leaving its outcome: the machinery failed, not the work."""

    code = "child-run-lost"


class ChildRefused(ChildLost):
    """A child run's worker is of a release that does not have what the run needs."""

    code = HANDLER_MISSING


class ChildCancelled(Broken):
    """An operator cancelled a child run in Prefect: the run that needs it is cancelled with it."""


class NoWorker(Exception):
    """No worker took the child up in the time that its node allows."""
