"""Checks once, before a worker takes any run, whether it may open strangers' files here."""

import logging

from pydantic import ValidationError

from flows.settings import DebugSettings, TryLimits
from flows.tries import confinement

log = logging.getLogger("cairn.worker")


class CannotConfine(RuntimeError):
    """GDAL tries must be confined, and this machine cannot."""


def refuse_debugger_elsewhere() -> None:
    """Refuse to work where a debugger would be let in and this is no developer's machine."""
    try:
        DebugSettings()
    except ValidationError as error:
        raise CannotConfine(error.errors()[0]["msg"].removeprefix("Value error, ")) from None


def look() -> None:
    """Refuse to work where required confinement is missing; else log loudly what is missing of it."""
    wanted = TryLimits().confinement
    if wanted == "off":
        log.error("GDAL tries are NOT confined: CAIRN_TRY_CONFINEMENT is off; a hostile file may take this worker over")
    elif lacking := confinement.fault(confinement.held_here()):
        if wanted == "required":
            raise CannotConfine(
                f"{lacking} CAIRN_TRY_CONFINEMENT is required, so this worker does not start: run it where both are "
                "there, or set `available` if you know every file that comes."
            )
        log.error("GDAL tries are NOT fully confined: a hostile file may take this worker over. %s", lacking)
