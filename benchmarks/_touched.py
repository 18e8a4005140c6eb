"""What statements touch: each plan with its actual rows and blocks, as the server itself notes them.

PostgreSQL's auto_explain writes every plan into the server's log, whoever asked: the ORM, the driver, libraries,
functions, foreign keys. Marks between acts, which are statements too, tell whose the plans are.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

PLAN = re.compile(r"^\S+ \S+ \S+ \[\d+\] LOG:  duration: [0-9.]+ ms  plan:$")
MARK = re.compile(r"^select 'mark (\d+)'$")
OF_THE_DATABASE_ITSELF = re.compile(r"\bpg_(catalog\.|stat_activity)", re.IGNORECASE)
LOG_SECONDS = 10.0
OPTIONS = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_format": "json",
}
SCANNED = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck", "Rows Removed by Join Filter")
BLOCKS = ("Shared Hit Blocks", "Shared Read Blocks", "Temp Read Blocks")


@dataclass(frozen=True)
class Touched:
    """What one kind of statement touched in an act: rows that scans gave or passed over, and blocks."""

    query: str
    rows: int
    blocks: int
    scans: tuple[str, ...]  # where the rows were, the most first


def explained(url: str) -> None:
    """Have the server note the plans of every session of this database that begins from now on."""
    with psycopg.connect(url, autocommit=True) as connection:
        for name, value in OPTIONS.items():
            named = sql.SQL(".").join(map(sql.Identifier, name.split(".")))
            order = sql.SQL("alter database {} set {} = {}")
            connection.execute(order.format(sql.Identifier(connection.info.dbname), named, sql.Literal(value)))


@dataclass
class Watch:
    """Reads what was noted in the server's log between two marks."""

    url: str
    log: Path
    _numbers: Iterator[int] = field(default_factory=count)
    _marker: psycopg.Connection = field(init=False)

    def __enter__(self) -> "Watch":
        self._marker = psycopg.connect(self.url, autocommit=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._marker.close()

    def begin(self) -> int:
        """Return where in the log later lines begin."""
        return self.log.stat().st_size

    def end(self, begun: int) -> list[Touched]:
        """Return all that was noted since, by statement."""
        number = next(self._numbers)
        self._marker.execute(f"select 'mark {number}'".encode(), prepare=False)
        deadline = time.monotonic() + LOG_SECONDS
        while time.monotonic() < deadline:
            found = list(plans_of(self._lines(begun)))
            for place, plan in enumerate(found):
                if (mark := MARK.match(plan["Query Text"])) and int(mark[1]) == number:
                    return by_statement(found[:place])
            time.sleep(0.02)
        raise RuntimeError(f"The server noted no plan within {LOG_SECONDS:.0f} s: is auto_explain installed?")

    def _lines(self, begun: int) -> list[str]:
        with self.log.open("rb") as log:
            log.seek(begun)
            return log.read().decode(errors="replace").splitlines()


def plans_of(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Every plan of the log: lines that go on begin with a tab."""
    taken: list[str] | None = None
    for line in (*lines, ""):
        if line.startswith("\t") and taken is not None:
            taken.append(line)
            continue
        if taken and taken[-1] == "\t}":  # else it is still being written
            yield json.loads("\n".join(taken))
        taken = [] if PLAN.match(line) else None


def by_statement(plans: Iterable[dict[str, Any]]) -> list[Touched]:
    rows, blocks, scans = Counter[str](), Counter[str](), dict[str, Counter[str]]()
    for plan in plans:
        query = " ".join(plan["Query Text"].split())
        if OF_THE_DATABASE_ITSELF.search(query):
            continue
        places = Counter(dict(_scans(plan["Plan"])))
        rows[query] += places.total()
        blocks[query] += sum(plan["Plan"].get(name, 0) for name in BLOCKS)
        scans.setdefault(query, Counter()).update(places)
    return [
        Touched(query, rows[query], blocks[query], tuple(f"{where}: {many}" for where, many in told.most_common(3)))
        for query, told in scans.items()
    ]


def _scans(node: dict[str, Any]) -> Sequence[tuple[str, int]]:
    """Return for each scan of the plan where it was, and how many rows it gave or passed over."""
    found: Counter[str] = Counter()
    nodes = [node]
    for one in nodes:
        nodes += one.get("Plans", ())
        if "Relation Name" in one or "Index Name" in one or "Function Name" in one:
            place = one.get("Index Name") or one.get("Relation Name") or one["Function Name"]
            found[f"{one['Node Type']} {place}"] += round(sum(one.get(n, 0) for n in SCANNED) * one["Actual Loops"])
    return list(found.items())
