"""A database whose processes are stopped: its connections stay open, its kernel answers for it, and it says nothing."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager

import httpx
import psycopg
import pytest

from domain.repositories import external
from domain.rules import database_timeouts
from domain.shared.database_address import DatabaseAddress
from domain.shared.database_connection import Answering
from tests.support.acts import submit
from tests.support.clock import PATIENCE_SECONDS
from tests.support.cluster import TestDatabase
from tests.support.platform import Platform, running_platform

BOUND_SECONDS = 8.0  # a service that waited with the database would answer only when it is thawed


@contextmanager
def frozen(database: TestDatabase) -> Iterator[None]:
    database.cluster.server.freeze()
    try:
        yield
    finally:
        database.cluster.server.thaw()


@pytest.fixture
async def platform(shared_database: TestDatabase, tmp_path: "object") -> AsyncIterator[Platform]:
    async with running_platform(shared_database, tmp_path, statement_seconds=1.0) as running:  # type: ignore[arg-type]
        yield running


async def ready(transport: httpx.AsyncBaseTransport) -> tuple[int, float]:
    """How a service answers its balancer's probe, and after how long."""
    began = time.monotonic()
    async with httpx.AsyncClient(transport=transport, base_url="http://service", timeout=30) as http:
        status = (await http.get("/readyz")).status_code
    return status, time.monotonic() - began


async def test_services_report_a_frozen_database_in_time_and_work_again_after_it(platform: Platform) -> None:
    both = (platform.domain.transport, platform.gateway)
    platform.gateway.app.state.gateway.remembered.seconds = 0.0  # type: ignore[attr-defined]
    assert [status for status, _ in await asyncio.gather(*map(ready, both))] == [200, 200]
    assert (await submit(platform.domain)).status_code == 202
    with frozen(platform.domain.database):
        submitting = asyncio.create_task(submit(platform.domain, refs={"dataset_id": "d", "resource_id": "r"}))
        probes = await asyncio.gather(*map(ready, both * 3))
        assert {status for status, _ in probes} == {503}
        assert max(seconds for _, seconds in probes) < BOUND_SECONDS
        assert (await submitting).status_code == 503, "nor does a call wait for ever"

    until = time.monotonic() + PATIENCE_SECONDS
    while [status for status, _ in await asyncio.gather(*map(ready, both))] != [200, 200]:
        assert time.monotonic() < until
        await asyncio.sleep(0.1)
    assert (await submit(platform.domain, refs={"dataset_id": "d", "resource_id": "r"})).status_code == 202


async def test_slow_statement_is_cancelled_by_a_living_server(shared_database: TestDatabase) -> None:
    line = await DatabaseAddress(shared_database.url()).connect_to_ask(autocommit=True, statement_seconds=0.1)
    async with line:
        with pytest.raises(psycopg.errors.QueryCanceled):
            await line.execute("select pg_sleep(5)")
        assert not line.closed, "only who says nothing at all is left"


async def test_connection_without_an_answer_is_closed(shared_database: TestDatabase) -> None:
    """The server's own limit is longer here: it stands for one that does not come to it."""
    line = await DatabaseAddress(shared_database.url()).connect_to_ask(autocommit=True)
    line.answer_seconds = 0.2
    with pytest.raises(psycopg.OperationalError):
        await line.execute("select pg_sleep(5)")
    await line.close()


async def test_each_question_has_all_its_time_though_one_alarm_serves_many(shared_database: TestDatabase) -> None:
    line = await DatabaseAddress(shared_database.url()).connect_to_ask(autocommit=True)
    line.answer_seconds = 1.0
    for _ in range(3):
        await line.execute("select pg_sleep(0.6)")  # the first one's alarm is due while the second is asked
    line.answer_seconds = 0.2
    began = time.monotonic()
    with pytest.raises(psycopg.OperationalError):
        await line.execute("select pg_sleep(5)")
    assert time.monotonic() - began < 1.0, "a question with less time does not wait for an earlier one's alarm"
    await line.close()


async def test_process_that_was_late_itself_closes_no_connection(shared_database: TestDatabase) -> None:
    """The answer has come while the process was busy: it is taken, however late."""
    line = await DatabaseAddress(shared_database.url()).connect_to_ask(autocommit=True)
    async with line:
        line.answer_seconds = 0.2
        asking = asyncio.create_task(line.execute("select 1"))
        await asyncio.sleep(0)
        time.sleep(0.4)  # noqa: ASYNC251 - the loop stands still
        assert await (await asking).fetchone() == (1,)
        assert (await (await line.execute("select 2")).fetchone()) == (2,)


async def test_a_connection_that_was_used_just_now_is_not_asked_first(shared_database: TestDatabase) -> None:
    line: Answering = await DatabaseAddress(shared_database.url()).connect_to_ask(autocommit=True)
    async with line:
        asked = "select calls from (select 1 as calls) x"
        await line.execute(asked)
        heard_at = line.heard_at
        await line.refuse_silence()
        assert line.heard_at == heard_at
        line.heard_at -= database_timeouts.IDLE_SECONDS
        await line.refuse_silence()
        assert line.heard_at > heard_at - database_timeouts.IDLE_SECONDS


async def ways_to_connect(url: str) -> dict[str, AbstractAsyncContextManager[psycopg.AsyncConnection]]:
    address = DatabaseAddress(url)
    return {
        "to listen": await address.connect(),
        "to ask": await address.connect_to_ask(),
        "to what is outside": external._connection(url),
    }


@pytest.mark.parametrize("way", ["to listen", "to ask", "to what is outside"])
async def test_connection_is_closed_where_its_block_is_cancelled_at_the_commit(
    shared_database: TestDatabase, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    committing, held = asyncio.Event(), list[psycopg.AsyncConnection]()

    async def never(connection: psycopg.AsyncConnection) -> None:
        held.append(connection)
        committing.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(psycopg.AsyncConnection, "commit", never)

    async def work() -> None:
        async with connections[way]:
            pass

    connections = await ways_to_connect(shared_database.url())
    working = asyncio.create_task(work())
    await committing.wait()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    closed = held[0].closed
    for connection in (*held, *connections.values()):
        if isinstance(connection, psycopg.AsyncConnection):
            await connection.close()
    assert closed


async def test_server_and_client_both_drop_a_dead_connection(shared_database: TestDatabase) -> None:
    """Locks of a client that was cut off are let go by the server within half a minute, not two hours."""
    address = DatabaseAddress(shared_database.url())
    async with await address.connect_to_ask(autocommit=True) as line:
        for name, value in database_timeouts.SERVERS.items():
            [(told,)] = await (await line.execute("select setting from pg_settings where name = %s", [name])).fetchall()
            assert int(told) == value, name
