"""What is lent is made once, kept while it is needed, and ended after the last test that uses it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import lending
from tests.support.lending import give_back, lent


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened to the server that is lent here; loans of other tests are left alone."""
    monkeypatch.setattr(lending, "_lent", {})
    return []


def borrow(told: list[str]) -> str:
    @contextmanager
    def server() -> Iterator[str]:
        told.append("begun")
        yield "server"
        told.append("ended")

    return lent("server", server)


def item(file: str, *fixtures: str) -> Any:
    return SimpleNamespace(path=Path(file), fixturenames=fixtures)


def test_lent_server_serves_several_files_and_ends_after_the_last(told: list[str]) -> None:
    assert borrow(told) == "server"
    give_back(item("a", "server"), item("b", "other", "server"))
    assert borrow(told) == "server"
    assert told == ["begun"]
    give_back(item("b", "server"), item("c", "other"))
    assert told == ["begun", "ended"]


def test_lent_server_is_kept_within_a_file_and_ended_with_the_session(told: list[str]) -> None:
    borrow(told)
    give_back(item("a", "server"), item("a"))
    assert told == ["begun"]
    give_back(item("a"), None)
    assert told == ["begun", "ended"]


def test_server_asked_for_after_its_end_is_made_anew(told: list[str]) -> None:
    borrow(told)
    give_back(item("a", "server"), item("b"))
    borrow(told)
    assert told == ["begun", "ended", "begun"]
    give_back(item("c"), None)
