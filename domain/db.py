"""Connections to the domain's database: one engine per process, one transaction per unit of work."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import psycopg
from sqlalchemy import event, text
from sqlalchemy.exc import DisconnectionError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionFree
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from domain.after_commit import AfterCommit, after_commit
from domain.failpoints import hit
from domain.rules.database_timeouts import STATEMENT_SECONDS
from domain.shared.database_address import DatabaseAddress
from domain.shared.database_connection import refuse_if_silent
from domain.shared.readiness import Pulse, Ready

Result = TypeVar("Result")
MIGRATIONS = Path(__file__).parent / "migrations"
OUTAGES = (OperationalError, InterfaceError, NoConnectionFree, psycopg.OperationalError, OSError)


class StaleSchema(RuntimeError):
    """The database's schema is not the one this code was written for."""


def _notify_nobody(_noted: AfterCommit) -> None:
    """Notify nobody of a commit: whoever waits finds out by asking."""


class Database:
    """Hands out transactions. Created at start-up, closed at shutdown."""

    def __init__(
        self, address: DatabaseAddress, pool_size: int = 10, statement_seconds: float = STATEMENT_SECONDS
    ) -> None:
        self.engine: AsyncEngine = create_async_engine(
            "postgresql+psycopg://",
            pool_size=pool_size,
            max_overflow=0,
            async_creator=lambda: address.connect_to_ask(
                application_name="cairn-domain", statement_seconds=statement_seconds
            ),
        )
        event.listen(self.engine.sync_engine, "checkout", _refuse_silence)
        self._pulse = Pulse(address)
        self.ready = Ready(self._pulse.ask)
        self._sessions = async_sessionmaker(self.engine, expire_on_commit=False)
        self.tell: Callable[[AfterCommit], None] = _notify_nobody

    @asynccontextmanager
    async def transaction(self, unit: str = "") -> AsyncIterator[AsyncSession]:
        """One unit of work: committed at the end of the block, rolled back on any exception.

        `unit`, or the name that a use case notes in `after_commit`, is of the failpoints around its commit.
        """
        async with self._sessions() as session:
            noted = after_commit(session)
            noted.failpoint = unit
            async with session.begin():
                yield session
                hit(f"{noted.failpoint}.before-commit")
            hit(f"{noted.failpoint}.after-commit")
            if noted:
                self.tell(noted)

    async def refuse_stale_schema(self) -> None:
        """Refuse to run on a schema that migrations have not brought up to date."""
        head = newest_schema()
        async with self.engine.connect() as connection:
            found = (await connection.execute(text("select to_regclass('app.alembic_version')"))).scalar()
            current = found and (await connection.execute(text("select version_num from app.alembic_version"))).scalar()
        if current != head:
            raise StaleSchema(
                f"The database is at schema {current or 'none'}, this service needs {head}. "
                "Run `python -m domain.migrations` against it first."
            )

    async def close(self) -> None:
        await self._pulse.close()
        await self.engine.dispose()


@cache
def newest_schema() -> str | None:
    """Return the schema that this code was written for. It imports every migration, so it is found once."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(MIGRATIONS)).get_current_head()


def _refuse_silence(pooled: Any, _record: object, _proxy: object) -> None:
    """Give no connection out whose server does not answer: the pool then opens another one."""
    try:
        pooled.run_async(refuse_if_silent)
    except psycopg.Error as error:
        raise DisconnectionError("The database does not answer on this connection.") from error


async def driver(session: AsyncSession) -> psycopg.AsyncConnection[tuple[Any, ...]]:
    """Return the driver's own connection in the session's transaction, for the few statements that run most.

    The session knows nothing of what is done there. It is flushed before where that matters.
    """
    pooled = await (await session.connection()).get_raw_connection()
    return cast("psycopg.AsyncConnection[tuple[Any, ...]]", pooled.driver_connection)


async def to_the_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the work's result; a cancellation takes effect only once the work is done.

    For short transactions of background loops: cancelled half-way, a connection would be left in nobody's hands.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


@contextmanager
def failures_logged(log: logging.Logger, what: str, **facts: str) -> Iterator[None]:
    """Log an unexpected error about one row, so that a loop over rows goes on with the next.

    It would end the process, and after each start the next one. An outage is about all rows: it is passed on.
    """
    try:
        yield
    except OUTAGES:
        raise
    except Exception:  # whatever it is, it is about this row
        log.exception(what, extra=facts)
