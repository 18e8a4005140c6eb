"""Questions to databases over connections that are kept: to open one costs more than most questions do.

Tests ask thousands of times, most often to see whether what they wait for has come.
"""

import select
import threading
from collections.abc import Sequence
from typing import Any

import psycopg

_kept: dict[tuple[str, int], psycopg.Connection] = {}


def ask(url: str, question: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
    """What the database answers, in a transaction of its own; nothing where the statement gives no rows."""
    answer = _connection(url).execute(question.encode(), values)
    return answer.fetchall() if answer.description is not None else []


def forget(url: str) -> None:
    """Close what is kept to a database, or to all of a server, before it ends."""
    for key in [key for key in _kept if f"{key[0]}/".startswith(f"{url}/")]:
        _kept.pop(key).close()


def _connection(url: str) -> psycopg.Connection:
    """This thread's, so that none waits behind another's question. One that the server has ended is opened anew."""
    key = (url, threading.get_ident())
    kept = _kept.get(key)
    if kept is None or _is_over(kept):
        if kept is not None:
            kept.close()
        # Nothing is prepared: tests change what tables are.
        _kept[key] = kept = psycopg.connect(url, autocommit=True, prepare_threshold=None)
    return kept


def _is_over(connection: psycopg.Connection) -> bool:
    """Whether it is closed, or the server has said something though nobody asked."""
    return connection.closed or bool(select.select([connection], [], [], 0)[0])
