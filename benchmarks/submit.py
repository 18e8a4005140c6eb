"""How many submissions one domain process takes in, against the least that taking one in could cost.

Both are one uvicorn worker on the same PostgreSQL with full durability, measured one after the other in the same run.
The domain's relay is off: what Prefect costs is not the submitter's time. The profile says where the rest goes.
"""

import asyncio
import cProfile
import json
import platform
import pstats
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks._history import add_history, begin_history
from benchmarks._load import (
    CONCURRENCY,
    TOKEN,
    UNLIMITED,
    add_bare_table,
    add_clients,
    domain_environment,
    expect,
    flood,
    p99,
    steady,
    submission,
    this_machine,
)
from benchmarks._servers import Connection, Postgres, postgres, served

SECONDS = 6.0
ROUNDS = 5
WARM_UP_SECONDS = 2.0  # of tables that were empty: what is measured is a database in use
RATIO_TARGET = 0.12
P99_TARGET = 0.050
FEW = 1_000
HISTORY = 100_000
FLAT_TARGET = 0.9
PROFILED = 200
Rounds = list[list[float]]
PACKAGES = ("sqlalchemy", "psycopg", "pydantic", "fastapi", "starlette", "domain", "flows", "asyncio", "json")


def run(seconds: float = SECONDS, history: int = HISTORY) -> dict[str, Any]:
    """Measure, and report in the shape of all benchmarks."""
    with postgres() as cluster, tempfile.TemporaryDirectory() as storage:
        add_bare_table(cluster)
        add_clients(cluster)
        with served("benchmarks._bare:create_app", {"BENCH_URL": cluster.url()}) as port:
            bare, _ = asyncio.run(_flood(port, "/submit", seconds))
        with served("domain.app:create_app", domain_environment(cluster, storage)) as port:
            asyncio.run(_flood(port, "/api/v1/submit", min(seconds, WARM_UP_SECONDS)))
            begin_history(cluster.url(), FEW)
            few, _ = asyncio.run(_flood(port, "/api/v1/submit", seconds / 3))  # short: it stores more
            own, count = asyncio.run(_flood(port, "/api/v1/submit", seconds))
            with served("benchmarks._bare:create_app", {"BENCH_URL": cluster.url()}) as beside:
                delays, bare_delays = asyncio.run(_in_turns(port, beside, own / 2, seconds))
            add_history(cluster.url(), history, first=FEW + 1)
            grown, grown_count = asyncio.run(_flood(port, "/api/v1/submit", seconds))
        shares = asyncio.run(_profile(cluster, storage))
    results = [
        _result("submissions_per_second", own, "1/s", count, baseline=bare, target=RATIO_TARGET, holds=own / bare),
        _latency("p50_at_half_load", statistics.median, delays, bare_delays, None),
        _latency("p99_at_half_load", p99, delays, bare_delays, P99_TARGET),
        _growth(grown, few, history, grown_count),
        *(_share(name, share) for name, share in shares.items()),
    ]
    return {"bench": "submit", "machine": this_machine(), "versions": _versions(), "results": results}


async def _flood(port: int, path: str, seconds: float) -> tuple[float, int]:
    """Submit as much as gets through."""

    async def submit(connection: Connection) -> None:
        expect(await connection.post(path, TOKEN, submission()))

    return await flood(port, submit, seconds)


async def _in_turns(port: int, bare: int, rate: float, seconds: float) -> tuple[Rounds, Rounds]:
    """Delays of the domain and of the bare insert, several times: a stall of the disk is in the round that met it."""
    rounds = [
        (await steady(port, "/api/v1/submit", rate, seconds), await steady(bare, "/submit", rate, seconds))
        for _ in range(ROUNDS)
    ]
    return [own for own, _ in rounds], [beside for _, beside in rounds]


async def _profile(cluster: Postgres, storage: str) -> dict[str, float]:
    """Which share of the process's own time each package takes, one submission after the other."""
    from pydantic import HttpUrl, SecretStr

    from domain.app import create_app
    from domain.settings import DomainSettings

    app = create_app(
        DomainSettings(
            database_url=SecretStr(cluster.url("cairn_app")),
            public_url=HttpUrl("https://bench.test"),
            storage_root=Path(storage),
            relay_enabled=False,
            open_requests_per_platform=UNLIMITED,
            development=True,  # without keys
        )
    )
    profile = cProfile.Profile()
    async with app.router.lifespan_context(app):
        await _call(app, submission())
        profile.enable()
        for _ in range(PROFILED):
            await _call(app, submission())
        profile.disable()
    return _shares(profile)


async def _call(app: Callable[..., Any], body: bytes) -> None:
    """Send one submission through the application without a socket."""
    headers = [(b"authorization", f"Bearer {TOKEN}".encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/v1/submit", "headers": headers, "query_string": b""}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            expect(message["status"])

    await app(scope, receive, send)


def _shares(profile: cProfile.Profile) -> dict[str, float]:
    spent: Counter[str] = Counter()
    for (file, _, name), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if "select.epoll" not in name:  # waiting for PostgreSQL is not this process's work
            spent[_package(file)] += own
    total = sum(spent.values())
    return {package: seconds / total for package, seconds in spent.most_common()}


def _package(file: str) -> str:
    parts = Path(file).parts
    return next((package for package in PACKAGES if any(part.startswith(package) for part in parts)), "other")


def _result(
    name: str, value: float, unit: str, n: int, *, baseline: float, target: float, holds: float
) -> dict[str, Any]:
    note = f"one worker, {CONCURRENCY} clients; baseline: FastAPI and psycopg, one row; the target is of the ratio"
    facts = {"name": name, "value": round(value, 1), "unit": unit, "baseline": round(baseline, 1)}
    return facts | {"ratio": round(holds, 3), "target": target, "holds": holds >= target, "n": n, "note": note}


def _growth(grown: float, few: float, history: int, n: int) -> dict[str, Any]:
    facts = {"name": f"after_{history}_requests", "value": round(grown, 1), "unit": "1/s", "baseline": round(few, 1)}
    note = f"throughput with so many more stored requests; baseline: with {FEW} and what a third of the time adds"
    holds = grown / few >= FLAT_TARGET
    return facts | {"ratio": round(grown / few, 3), "target": FLAT_TARGET, "holds": holds, "n": n, "note": note}


def _latency(
    name: str,
    of: Callable[[Sequence[float]], float],
    delays: Rounds,
    bare: Rounds,
    target: float | None,
) -> dict[str, Any]:
    value, baseline = (statistics.median(map(of, rounds)) for rounds in (delays, bare))
    facts = {"name": name, "value": round(value, 5), "unit": "s", "baseline": round(baseline, 5), "target": target}
    each = ", ".join(f"{of(one):.4f}" for one in delays)
    note = (
        "at half the throughput above, from when each was due; the median of rounds that take turns with the"
        f" baseline, the bare insert at the same rate: {each}"
    )
    holds = None if target is None else value <= target
    return facts | {"ratio": round(value / baseline, 2), "holds": holds, "n": sum(map(len, delays)), "note": note}


def _share(name: str, share: float) -> dict[str, Any]:
    facts = {"name": f"profile_{name}", "value": round(share, 3), "unit": "1", "baseline": None, "ratio": None}
    note = "share of the process's own time"
    return facts | {"target": None, "holds": None, "n": PROFILED, "note": note}


def _versions() -> dict[str, str]:
    names = ("fastapi", "psycopg", "pydantic", "sqlalchemy", "uvicorn")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    sys.stdout.write("\n")
