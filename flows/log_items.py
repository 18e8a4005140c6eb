"""Names in each log line the item of a fan-out, and the try, that it is about. Knows no Prefect.

Items that share a task run share its lines there: without their names nobody could tell them apart. The name is bound
to the context in which the item is worked on, which its threads and the watcher of its GDAL process take over.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

LONGEST_KEY: Final = 100
NAMED: Final = "names_its_item"
_about: ContextVar[tuple[int, str, int] | None] = ContextVar("cairn_item", default=None)


@contextmanager
def about_item(index: int, key: str, try_number: int) -> Iterator[None]:
    """Name this item and try in what is logged while the block runs."""
    token = _about.set((index, key, try_number))
    try:
        yield
    finally:
        _about.reset(token)


class ItemNamed(logging.Filter):
    """Puts the item before the message, once, however many handlers take the record."""

    def filter(self, record: logging.LogRecord) -> bool:
        about = _about.get()
        if about is not None and not hasattr(record, NAMED):
            vars(record)[NAMED] = True
            record.msg, record.args = f"[{named(*about)}] {record.getMessage()}", None
        return True


def named(index: int, key: str, try_number: int) -> str:
    """The item and its try as a line tells them. A key may be a partner's: it is shown quoted, short, on one line."""
    shown = "" if key == str(index) else f" {key[:LONGEST_KEY]!r}"
    return f"item {index}{shown}, try {try_number + 1}"
