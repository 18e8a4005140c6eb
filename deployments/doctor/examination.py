"""Runs all checks; which ones depends on whether a stack runs and whose database it uses."""

import asyncio
import os
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from deployments.doctor import database, folder, machine, running
from deployments.doctor.finding import Finding
from deployments.stack.ports import PREFERRED, is_free
from deployments.stack.state import StackState
from flows.pools import POOLS
from flows.tries.confinement import held_here


def examine(state: StackState) -> Iterator[Finding]:
    """Yield each finding as soon as it is known."""
    facts = state.running() if state.root.exists() else None  # asking for the lock would make the folder
    own_database = os.environ.get("CAIRN_DATABASE_URL") or os.environ.get("DATABASE_URL")
    yield machine.python(sys.version_info[:3])
    if not own_database:
        yield from _private_postgres()
    yield machine.program("redis-server", "redis-server")
    yield machine.program("setpriv", "util-linux")
    yield machine.console()
    yield machine.confinement(held_here(), machine.confinement_wanted())
    yield from machine.keys(os.environ)
    yield folder.folder(state)
    yield machine.disk(folder.existing(state.root))
    if facts is None:
        yield machine.ports({name: port for name, port in PREFERRED.items() if not is_free(port)})
    yield running.stack(facts)
    is_ready = facts is not None and facts["phase"] == "ready"
    if facts is not None and is_ready:
        report = _report(state, facts)
        yield from running.services(report, str(state.logs))
        yield from running.held(report)
    if url := database_url(facts if is_ready else None, own_database):
        yield from database.examine(url, list(POOLS) if is_ready else ())


def database_url(facts: dict[str, Any] | None, own: str | None) -> str | None:
    """The database to ask: the running stack's, else one that the environment names."""
    if facts is not None and "postgres" in facts["services"]:
        return str(facts["services"]["postgres"]["url"])
    if facts is not None and own:  # the stack has made a database of its own there
        return urlunsplit(urlsplit(own)._replace(path="/cairn"))
    return own


def _private_postgres() -> list[Finding]:
    from deployments.stack.postgres import PostgresMissing, find_binaries

    try:
        binaries = find_binaries()
    except PostgresMissing:
        return machine.postgres(None, ())
    return machine.postgres(binaries, machine.extension_folders(binaries))


def _report(state: StackState, facts: dict[str, Any]) -> dict[str, Any]:
    from deployments.stack.report import report

    return asyncio.run(report(state, facts))
