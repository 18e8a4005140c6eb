"""Lets a developer's debugger into tries of one handler, before its first line. On a developer's machine only."""

import logging
import os

from flows.settings import DebugSettings

HOST = "127.0.0.1"
log = logging.getLogger("cairn.debugging")


def port_for(handler: str) -> int | None:
    """Where tries of this handler wait for a debugger; None, as nearly always, where they wait for none."""
    if not os.environ.get("CAIRN_DEBUG_HANDLER"):
        return None
    wanted = DebugSettings()
    return wanted.debug_port if wanted.debug_handler == handler else None


def wait_for_debugger(port: int) -> None:
    """Go on once a debugger is attached and has told its breakpoints. One process waits at a time, once."""
    import debugpy  # type: ignore[import-not-found,unused-ignore]  # noqa: T100 - a developer asked for it

    try:
        debugpy.listen((HOST, port))  # noqa: T100
    except RuntimeError as error:  # this process listens already, or another one does
        log.info("no debugger is waited for", extra={"reason": str(error)})
        return
    log.warning("a try waits for a debugger", extra={"port": port})
    debugpy.wait_for_client()  # noqa: T100
