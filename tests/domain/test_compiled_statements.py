"""The server compiles no statement of ours: for one that is made to follow an index it would at each time."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from domain.shared.database_address import DatabaseAddress
from tests.support.asking import ask
from tests.support.cluster import TestDatabase

BY_INDEX = b"set enable_seqscan = off"
PLAN = b"explain (analyze, format json) select count(*) from app.platforms where display_name <> ''"


@pytest.fixture
def compiling(shared_database: TestDatabase) -> Iterator[TestDatabase]:
    """A database that has the server compile, as servers do unless they are told otherwise: the tests' own is told."""
    name = shared_database.name
    ask(shared_database.url(), f"alter database {name} set jit = on")
    yield shared_database
    ask(shared_database.url(), f"alter database {name} reset jit")


def is_compiled(told: Any) -> bool:
    [plan] = told if isinstance(told, list) else json.loads(told)
    return "JIT" in plan


async def test_statement_made_to_follow_an_index_is_not_compiled(compiling: TestDatabase) -> None:
    async with await DatabaseAddress(compiling.url()).connect_to_ask(autocommit=True) as ours:
        await ours.execute(BY_INDEX)
        [[told]] = await (await ours.execute(PLAN)).fetchall()
    assert not is_compiled(told)


def test_server_by_itself_compiles_such_a_statement(compiling: TestDatabase) -> None:
    """The control, where the server can compile at all."""
    with psycopg.connect(compiling.url(), autocommit=True) as plain:
        [[can]] = plain.execute("select pg_jit_available()").fetchall()
        plain.execute(BY_INDEX)
        [[told]] = plain.execute(PLAN).fetchall()
    assert is_compiled(told) == can


async def test_url_that_asks_for_compiling_gets_it(shared_database: TestDatabase) -> None:
    url = f"{shared_database.url()}?options=-c%20jit%3Don"
    async with await DatabaseAddress(url).connect_to_ask(autocommit=True) as ours:
        assert await (await ours.execute("show jit")).fetchone() == ("on",)
