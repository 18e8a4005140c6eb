"""Lines that are logged for an item name it, and only those, whatever its key is."""

import logging
from collections.abc import Iterator
from contextvars import copy_context
from threading import Thread

import pytest

from domain.shared.logs import MessageRedaction
from flows.log_items import ItemNamed, about_item, named
from flows.log_redaction import strike_from_logs

log = logging.getLogger("cairn.handler")


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """A handler as Prefect's is, where flow runs have their lines read."""
    made, ours = Kept(), logging.getLogger("cairn")
    monkeypatch.setattr(ours, "handlers", [made, Kept()])
    levels = {one: one.level for one in (ours, log)}
    for one in levels:
        one.setLevel(logging.INFO)  # a flow run in this process sets the handlers' own, for good
    strike_from_logs()
    yield made
    for one, level in levels.items():
        one.setLevel(level)


def test_line_of_an_item_names_its_key_and_try_once_in_threads_too(kept: Kept) -> None:
    with about_item(7, "dem-7", 1):
        log.info("%d%% done", 50)
        thread = Thread(target=copy_context().run, args=(log.info, "from a thread"))
        thread.start()
        thread.join()
    log.info("of nobody")
    assert kept.lines == [
        "[item 7 'dem-7', try 2] 50% done",
        "[item 7 'dem-7', try 2] from a thread",
        "of nobody",
    ]


def test_key_that_is_the_number_is_not_told_twice() -> None:
    assert named(3, "3", 0) == "item 3, try 1"


def test_hostile_key_stays_on_one_line_short_and_without_secrets(kept: Kept) -> None:
    with about_item(0, "a\n[item 1] forged\x1b[31m" + "k" * 5000, 0):
        log.info("a line")
    with about_item(0, "https://x.blob.core.windows.net/a?sig=c2VjcmV0c2VjcmV0c2VjcmV0", 0):
        log.info("another")
    assert "\n" not in kept.lines[0]
    assert "\x1b" not in kept.lines[0]
    assert len(kept.lines[0]) < 200
    assert "c2VjcmV0" not in kept.lines[1]


def test_items_are_named_before_secrets_are_struck(kept: Kept) -> None:
    assert [type(one) for one in kept.filters] == [ItemNamed, MessageRedaction]
