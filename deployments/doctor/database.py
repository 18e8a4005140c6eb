"""Checks whether a database is reachable and of this release, who serves the pools, and whether clocks agree."""

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deployments.doctor.finding import Finding, ok, warning, wrong

MIGRATIONS = Path(__file__).resolve().parents[2] / "domain/migrations/versions"
REVISION = re.compile(r'^(revision|down_revision)\b[^=]*= "([^"]+)"', re.MULTILINE)
CONNECT_SECONDS = 3
SILENCE_SECONDS = 25.0  # as CAIRN_BEACON_SILENCE_SECONDS is unless set
# Tokens are believed with half a minute of difference, and flow runs count as new for as long.
CLOCK_WARNING_SECONDS, CLOCK_WRONG_SECONDS = 2.0, 20.0


def examine(url: str, pools: Sequence[str]) -> list[Finding]:
    """What the database says of itself; `pools` are those that should be served now."""
    import psycopg

    try:
        with psycopg.connect(url, connect_timeout=CONNECT_SECONDS, autocommit=True) as connection:
            return _ask(connection, pools)
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[0]  # libpq names the server there, and never the password
        return [wrong("database", f"cannot be used: {reason}", "Check CAIRN_DATABASE_URL, and that the server runs.")]


def _ask(connection: Any, pools: Sequence[str]) -> list[Finding]:
    before = time.time()
    version, postgis, clock = connection.execute(
        "select current_setting('server_version'),"
        " (select default_version from pg_available_extensions where name = 'postgis'),"
        " extract(epoch from clock_timestamp())::float"
    ).fetchone()
    found = [ok("database", f"PostgreSQL {version}"), of_postgis(postgis)]
    found.append(of_clock(clock - (before + time.time()) / 2))
    if connection.execute("select to_regclass('app.alembic_version')").fetchone()[0] is None:
        return found if not pools else [*found, of_schema(None, newest())]
    [schema] = connection.execute("select version_num from app.alembic_version").fetchone()
    found.append(of_schema(schema, newest()))
    if schema == newest():
        found += [*_secrecy(connection), _leftovers(connection)]
        folders = connection.execute("select platform_id, source_prefixes from app.platforms where is_active")
        found.append(of_folders(dict(folders)))
    if not pools:
        return found
    ages = dict(
        connection.execute(
            "select pool, extract(epoch from clock_timestamp() - max(seen_at))::float from app.pool_workers group by 1"
        )
    )
    return found + [of_pool(pool, ages) for pool in pools]


def _secrecy(connection: Any) -> list[Finding]:
    """Check what somebody could read or forge who has only the database."""
    [readable] = connection.execute("select count(*) from app.callback_secrets where sealed like 'plain:%'").fetchone()
    last = connection.execute("select hash from app.audit_seals order by sequence desc limit 1").fetchone()
    return [of_callback_secrets(readable), of_seals(last[0] if last else None)]


def _leftovers(connection: Any) -> Finding:
    """Whether what ended requests left over can be removed."""
    stuck = "select count(*) from app.requests where collected_at is null and finished_at is not null"
    [begun] = connection.execute(f"{stuck} and collecting_at < now() - interval '1 day'").fetchone()
    return of_leftovers(begun)


def of_leftovers(begun: int) -> Finding:
    if begun:
        advice = "Look for `leftovers could not be removed` in the domain's log: it says what the storage refuses."
        return warning("leftovers", f"those of {begun} requests could not be removed for a day", advice)
    return ok("leftovers", "none that could not be removed")


def of_callback_secrets(readable: int) -> Finding:
    if readable:
        advice = "Set CAIRN_SECRETS_KEYS for the domain: it seals them when it starts."
        return wrong("callback secrets", f"{readable} of them can be read in the database", advice)
    return ok("callback secrets", "none can be read in the database")


def of_seals(newest_seal: str | None) -> Finding:
    if newest_seal is not None and ":" not in newest_seal:
        advice = "Set CAIRN_AUDIT_KEYS for the domain: without a key the chain can be remade in the database."
        return warning("audit", "its newest seal was made without a key", advice)
    return ok("audit", "its newest seal was made with a key" if newest_seal else "nothing is sealed yet")


def of_folders(prefixes: Mapping[str, Sequence[str]]) -> Finding:
    """Check whether any platform shares a source folder with another."""
    from domain.rules.sources import shared_folders  # loads Pydantic, which may be what is missing

    if shared := shared_folders(prefixes):
        both = "; ".join(f"{one} and {other}: {folder}" for (one, other), folder in sorted(shared.items()))
        advice = "Register each with folders of its own, unless both are the same people's."
        return warning("source folders", f"two platforms may submit each other's files ({both})", advice)
    return ok("source folders", "no two platforms share one")


def of_postgis(version: str | None) -> Finding:
    if version is None:
        return wrong("postgis", "the server does not offer it", "Install PostGIS on the database's server.")
    return ok("postgis", version)


def of_clock(ahead_seconds: float) -> Finding:
    """How far the database's clock, which is the authority, is ahead of this machine's."""
    apart = abs(ahead_seconds)
    if apart <= CLOCK_WARNING_SECONDS:
        return ok("clock", f"{apart:.1f} s from the database's")
    side = "behind" if ahead_seconds > 0 else "ahead of"
    found = wrong if apart > CLOCK_WRONG_SECONDS else warning
    return found("clock", f"{apart:.1f} s {side} the database's", "Have both machines keep time by NTP.")


def of_schema(current: str | None, head: str) -> Finding:
    if current == head:
        return ok("schema", current)
    detail = f"the database is at {current or 'none'}, this release needs {head}"
    if current is not None and current > head:  # they are numbered
        return wrong("schema", detail, "Run the release that migrated it, or a newer one.")
    return wrong("schema", detail, "Run `python -m domain.migrations`; the embedded stack does when it starts.")


def of_pool(pool: str, ages: Mapping[str, float]) -> Finding:
    check, start = f"pool {pool}", f"Start one: `cairn worker start --pool {pool}`."
    if pool not in ages:
        return wrong(check, "no worker has said that it serves it", start)
    if (age := ages[pool]) > SILENCE_SECONDS:
        return wrong(check, f"its last worker was heard of {age:.0f} s ago", start)
    return ok(check, f"a worker was heard of {age:.0f} s ago")


def newest() -> str:
    """The schema that this release needs: the one migration that no other builds on."""
    told: list[dict[str, str]] = [dict(REVISION.findall(path.read_text())) for path in MIGRATIONS.glob("*.py")]
    [head] = {one["revision"] for one in told} - {one.get("down_revision") for one in told}
    return head
