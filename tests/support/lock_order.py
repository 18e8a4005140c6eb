"""Watches in which order transactions of the domain lock rows: the asset, the request, its runs, their attempts.

Two transactions that lock the same rows in two orders wait for each other for ever, if rarely. Here each transaction is
held against the one order, whatever else goes on. Statements that leave out what is locked wait for nobody. Migrations
change tables, which they have to themselves.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

FIRST_TO_LAST = ("assets", "requests", "runs", "attempts")
LOCKING = re.compile(r"\bfor (?:no key )?update\b")
CHANGED = re.compile(r"\bupdate app\.(\w+)")
MADE = re.compile(r"\binsert into app\.(\w+)")
SHAPES = re.compile(r"\s*(?:alter|create|drop)\b")
READ = re.compile(r"\bfrom app\.(\w+)")


def locks(statement: str) -> str | None:
    """The table whose rows the statement locks and may wait for."""
    words = " ".join(statement.lower().split())
    if "skip locked" in words:
        return None
    found = CHANGED.search(words) or (READ.search(words) if LOCKING.search(words) else None)
    return found.group(1) if found else None


def fault(held: set[str], table: str) -> str | None:
    """Why a row of this table may not be locked now, by a transaction that holds rows of those."""
    if table not in FIRST_TO_LAST or table in held:
        return None
    if later := held & set(FIRST_TO_LAST[FIRST_TO_LAST.index(table) + 1 :]):
        return f"{table} after {', '.join(sorted(later))}"
    return "runs without their request" if table == "runs" and "requests" not in held else None


@dataclass
class LockOrder:
    """What was found wrong in the transactions that went on while it watched."""

    faults: list[str] = field(default_factory=list)
    transactions: int = 0

    def begin(self, connection: Connection) -> None:
        connection.info.update(held=set[str](), shapes=False)
        self.transactions += 1

    def see(self, connection: Connection, _cursor: Any, statement: str, *_more: Any) -> None:
        held: set[str] = connection.info.setdefault("held", set())
        if made := MADE.search(statement.lower()):  # nobody else sees what is new, so nobody waits for it
            held.add(made.group(1))
        elif SHAPES.match(statement.lower()):
            connection.info["shapes"] = True
        elif table := locks(statement):
            if (wrong := fault(held, table)) and not connection.info.get("shapes"):
                self.faults.append(f"{wrong}: {' '.join(statement.split())[:300]}")
            held.add(table)


@contextmanager
def watched() -> Iterator[LockOrder]:
    """Watch every engine of this process."""
    order = LockOrder()
    seen: dict[str, Callable[..., None]] = {"begin": order.begin, "before_cursor_execute": order.see}
    for name, listener in seen.items():
        event.listen(Engine, name, listener)
    try:
        yield order
    finally:
        for name, listener in seen.items():
            event.remove(Engine, name, listener)
