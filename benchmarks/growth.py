"""What is asked of the database again and again, with 300 times as much that is past: how long it takes, what it reads.

Two databases on one private PostgreSQL, with everything durable, filled with the same work of days and of years
(`_years`). Each act (`_growth_acts`) is timed on both in turns; then PostgreSQL itself notes the plan of each of its
statements, and rows and blocks are counted. The baseline is the small one. CAIRN_BENCH_SHORT=1 takes fewer of both;
CAIRN_BENCH_REQUESTS=10000,3000000 says how many.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from platform import python_version
from statistics import median
from typing import Any

import psycopg
from psycopg import sql

from benchmarks._flow_runs import figure
from benchmarks._growth_acts import Act, all_acts
from benchmarks._load import this_machine
from benchmarks._platform import MeasuredPlatform, Url, publish, running
from benchmarks._servers import DATABASE, Postgres, postgres
from benchmarks._touched import Touched, Watch, explained
from benchmarks._years import fill, sizes

REQUESTS, SHORT_REQUESTS = (10_000, 3_000_000), (2_000, 60_000)
ROUNDS, SHORT_ROUNDS = 15, 5
AT_MOST = 1.5
SLACK_SECONDS = 0.002  # what is so quick that noise is most of it
NAMED = ("claim", "sweep", "console /console/?show=waiting", "gateway /api/platform/status/{request}", "submit")
# A tree of ten times as many entries may be a level deeper: each look-up in it touches a block more.
ROWS, BLOCKS = (1.25, 25), (1.5, 30)
Plans = Mapping[str, Sequence[Touched]]


@dataclass
class Side:
    """One database and its measurements."""

    url: Url
    requests: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    plans: dict[str, Sequence[Touched]] = field(default_factory=dict)
    filled_seconds: float = 0.0


def run(requests: tuple[int, int] | None = None, rounds: int | None = None) -> dict[str, Any]:
    """Measure, and report in the shape of all benchmarks."""
    short = bool(os.environ.get("CAIRN_BENCH_SHORT"))
    wanted = requests or _wanted() or (SHORT_REQUESTS if short else REQUESTS)
    with tempfile.TemporaryDirectory(prefix="cairn-bench-growth-") as folder:
        log = Path(folder) / "postgres.log"
        with postgres(log) as cluster:
            sides = [_side(cluster, count, Path(folder)) for count in wanted]
            asyncio.run(_measure(sides, log, Path(folder), rounds or (SHORT_ROUNDS if short else ROUNDS)))
            facts = [sizes(side.url("cairn_admin")) for side in sides]
    results = [*_results(*sides)]
    databases = [
        told | {"filled_seconds": round(side.filled_seconds, 1)} for told, side in zip(facts, sides, strict=True)
    ]
    grew = grown(sides[0].plans, sides[1].plans)
    report = {"bench": "growth", "machine": this_machine(), "versions": {"python": python_version()}}
    return report | {"databases": databases, "grown": grew, "results": results}


def _wanted() -> tuple[int, int] | None:
    given = os.environ.get("CAIRN_BENCH_REQUESTS")
    if not given:
        return None
    few, many = given.split(",")
    return int(few), int(many)


def _side(cluster: Postgres, count: int, folder: Path) -> Side:
    """A database of its own with so much in it."""
    name = f"{DATABASE}_{count}"
    with psycopg.connect(cluster.url(database="postgres"), autocommit=True) as connection:
        order = sql.SQL("create database {} template {}")
        connection.execute(order.format(sql.Identifier(name), sql.Identifier(DATABASE)))
    side = Side(lambda role: cluster.url(role, name), count)
    asyncio.run(publish(side.url, folder))
    _tell(f"filling in {count:,} requests")
    began = time.perf_counter()
    fill(side.url("cairn_admin"), count)
    side.filled_seconds = time.perf_counter() - began
    return side


async def _measure(sides: Sequence[Side], log: Path, folder: Path, rounds: int) -> None:
    """Time each act on both, in turns; then have it explained on both."""
    few, many = sides
    async with running(few.url, folder) as one, running(many.url, folder) as other:
        for act in all_acts():
            await _timed(act, ((few, one), (many, other)), rounds)
            _tell(f"{act.name}: {_median(few, act):.4f} s, {_median(many, act):.4f} s")
    for side in sides:
        side.plans = await plans(side.url, log, folder, warm_up=rounds)


async def _timed(act: Act, sides: Sequence[tuple[Side, MeasuredPlatform]], rounds: int) -> None:
    for number in range(rounds + 1):  # the first in vain: what is measured is a database in use
        for side, platform in sides:
            began = time.perf_counter()
            await act.do(platform)
            spent = time.perf_counter() - began
            await act.undo(platform)
            if number:
                side.seconds.setdefault(act.name, []).append(spent)


async def plans(url: Url, log: Path, folder: Path, *, warm_up: int = 0) -> dict[str, Sequence[Touched]]:
    """What each act touches. Statements that are asked often are planned for any value: hence a warm-up."""
    explained(url("cairn_admin"))
    found: dict[str, Sequence[Touched]] = {}
    with Watch(url("cairn_admin"), log) as watch:
        async with running(url, folder) as platform:
            for act in all_acts():
                for _ in range(warm_up):
                    await act.do(platform)
                    await act.undo(platform)
                begun = watch.begin()
                await act.do(platform)
                found[act.name] = watch.end(begun)
                await act.undo(platform)
    return found


def grown(before: Plans, after: Plans) -> list[str]:
    """Return a line for each statement that touches more than before, with its act and place."""
    lines = []
    for name, told in after.items():
        known = {one.query: one for one in before[name]}
        few, many = _total(before[name]), _total(told)
        if _is_more(few, many):
            lines.append(f"{name}: {few[0]} rows in {few[1]} blocks became {many[0]} in {many[1]}")
            more = [
                one for one in told if _is_more(_total([known[one.query]] if one.query in known else []), _total([one]))
            ]
            worst = sorted(more, key=lambda one: -one.rows - one.blocks)[:3]
            lines += [
                f"    {one.rows} rows, {one.blocks} blocks ({'; '.join(one.scans)}): {one.query}" for one in worst
            ]
    return lines


def _total(told: Sequence[Touched]) -> tuple[int, int]:
    return sum(one.rows for one in told), sum(one.blocks for one in told)


def _is_more(before: tuple[int, int], after: tuple[int, int]) -> bool:
    allowed = (few * ratio + slack for few, (ratio, slack) in zip(before, (ROWS, BLOCKS), strict=True))
    return any(many > most for many, most in zip(after, allowed, strict=True))


def _median(side: Side, act: Act) -> float:
    return median(side.seconds[act.name])


def _results(few: Side, many: Side) -> Iterator[dict[str, Any]]:
    for name in few.seconds:
        own, baseline = median(many.seconds[name]), median(few.seconds[name])
        touched = " and ".join(
            f"{rows} rows in {blocks} blocks with {side.requests:,} requests"
            for side in (few, many)
            for rows, blocks in [_total(side.plans[name])]
        )
        ratio = own / baseline if own - baseline > SLACK_SECONDS or name in NAMED else min(1.0, own / baseline)
        yield figure(
            name, own, "s", baseline=baseline, ratio=ratio, n=len(many.seconds[name]), note=touched, at_most=AT_MOST
        )  # fmt: skip


def _tell(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    sys.stdout.write("\n")
