"""What the gateway reads by itself, as a role that cannot write: the views of schema `api`, and nothing else.

Every reading but that of who calls names its reader: the database itself shows no other platform's rows.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString, TypeVar
from uuid import UUID

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from domain.contracts.platforms import PlatformRow
from domain.contracts.submissions import RequestState
from domain.rules import identity, paging
from domain.rules.clearance import STAFF, Clearance, Identity, Role
from domain.rules.database_timeouts import READING_SECONDS
from domain.shared.database_address import DatabaseAddress
from domain.shared.database_connection import Answering, refuse_if_silent
from gateway.errors import BehindUnavailable, MalformedRequest

Row = TypeVar("Row")
EVERYBODYS: Final = "*"
NOBODYS: Final = ""
RETRY_SECONDS: Final = 2

IDENTITY: Final = "select client_id, role, platform_id, scopes from api.identities where is_active and "
BY_SECRET: Final = IDENTITY + "secret_hash = %s limit 1"
BY_CLIENT: Final = IDENTITY + "client_id = %s limit 1"
PLATFORM: Final = (
    "select platform_id, required_refs, optional_refs, version_ref, field_mapping from api.platforms"
    " where platform_id = %(platform_id)s"
)


@dataclass(frozen=True)
class RequestRow:
    """A request as its partner may know it."""

    request_id: UUID
    platform_id: str
    client_id: str
    status: RequestState
    data_type: str | None
    operation: str
    priority: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    problem: dict[str, Any] | None
    outputs: dict[str, Any] | None
    asset_id: str | None
    refs: dict[str, str] | None
    ordinal: int | None
    revision: int | None
    version_label: str | None
    served_revision: int | None
    clearance: Clearance | None
    approval: str | None
    is_deleted: bool
    nodes_total: int
    nodes_done: int
    items_total: int
    items_done: int
    fraction: float


@dataclass(frozen=True)
class AssetRow:
    asset_id: str
    platform_id: str
    refs: dict[str, str]
    data_type: str
    clearance: Clearance
    cleared_at: datetime | None
    made_public_at: datetime | None
    exposure: str
    latest_ordinal: int | None
    created_at: datetime
    lock_version: int


@dataclass(frozen=True)
class VersionRow:
    """A version with its newest revision."""

    asset_id: str
    ordinal: int
    label: str
    revision: int
    served_revision: int | None
    request_id: UUID
    approval: str
    processing: RequestState
    decided_at: datetime | None
    reason: str | None
    content_hash: str | None
    created_at: datetime
    lock_version: int


REQUEST: Final = f"select {', '.join(RequestRow.__dataclass_fields__)} from api.requests where request_id = %(id)s"  # noqa: S608 - our own names
# So many are looked at and no more, whatever is wanted of them, or what is rare would have all be read.
LOOKED_AT: Final = """
    select asset_id, refs, clearance, data_type from api.assets where {whose}asset_id > %(after)s
    order by asset_id limit %(look)s
"""
ASSETS: Final = (
    f"select {', '.join(AssetRow.__dataclass_fields__)} from api.assets where asset_id in ("  # noqa: S608 - our own names
    "select asset_id from ({looked_at}) looked_at where refs @> %(refs)s"
    " and (%(clearance)s::text is null or clearance = %(clearance)s)"
    " and (%(data_type)s::text is null or data_type = %(data_type)s) order by asset_id limit %(limit)s"
    ") order by asset_id"
)
OF_ALL: Final = LOOKED_AT.format(whose="")
OF_ONE: Final = LOOKED_AT.format(whose="platform_id = %(reader)s and ")
END: Final = "select asset_id from ({looked_at}) looked_at offset %(look)s - 1"
ASSET: Final = f"select {', '.join(AssetRow.__dataclass_fields__)} from api.assets where asset_id = %(id)s"  # noqa: S608 - our own names
VERSIONS: Final = (
    f"select {', '.join(VersionRow.__dataclass_fields__)} from api.asset_versions"  # noqa: S608 - our own names
    " where asset_id = %(id)s and ordinal > %(after)s order by ordinal limit %(limit)s"
)


def reader_of(caller: Identity) -> str:
    """Return for whom rows are read: a partner's platform, all for staff, none for anybody else."""
    if caller.role in STAFF:
        return EVERYBODYS
    return caller.platform_id or NOBODYS if caller.role == "partner" else NOBODYS


def assets_query(reader: str) -> LiteralString:
    """The query that finds this reader's assets."""
    return ASSETS.format(looked_at=_platform_condition(reader))


def _platform_condition(reader: str) -> LiteralString:
    """Return the condition that row security implies, written out for the planner."""
    return OF_ALL if reader == EVERYBODYS else OF_ONE


async def ready_to_read(connection: AsyncConnection[Any]) -> None:
    """Make the connection commit each statement by itself and begin read-only transactions."""
    await connection.set_autocommit(True)
    await connection.set_read_only(True)


def reading_pool(address: DatabaseAddress, size: int) -> AsyncConnectionPool:
    """Connections that read, opened when the application starts."""
    return AsyncConnectionPool(
        address.url,
        connection_class=Answering,
        kwargs=address.options(statement_seconds=READING_SECONDS),
        min_size=1,
        max_size=size,
        timeout=5.0,
        open=False,
        configure=ready_to_read,
        check=refuse_if_silent,
    )


@dataclass(frozen=True)
class Queries:
    pool: AsyncConnectionPool

    async def identity(self, secret_hash: str) -> Identity | None:
        """The active client whose secret has this hash."""
        return await self._identity(BY_SECRET, secret_hash)

    async def identity_of(self, client_id: str) -> Identity | None:
        """The active client of this id, whose token was verified."""
        return await self._identity(BY_CLIENT, client_id)

    async def platform(self, platform_id: str) -> PlatformRow | None:
        """The active platform's registry row. It is read each time: what was registered works at once."""
        async with self._connection() as connection, connection.cursor(row_factory=class_row(PlatformRow)) as cursor:
            return await (await cursor.execute(PLATFORM, {"platform_id": platform_id})).fetchone()

    async def request(self, reader: str, request_id: UUID) -> RequestRow | None:
        return await self.one(reader, RequestRow, REQUEST, {"id": request_id})

    async def assets(
        self, reader: str, refs: Mapping[str, str], clearance: str | None, data_type: str | None, after: str, limit: int
    ) -> tuple[Sequence[AssetRow], str | None]:
        """Return one page in the order of ids, and after which id the next one begins.

        The asset that has exactly these references, which its id follows from, is on the first page wherever it comes.
        """
        values = {"refs": Jsonb(dict(refs)), "clearance": clearance, "data_type": data_type}
        wanted = values | {"reader": reader, "after": after, "limit": limit, "look": paging.LOOK}
        rows = await self.rows(reader, AssetRow, assets_query(reader), wanted)
        if len(rows) == limit:
            return rows, rows[-1].asset_id
        end = await self.one(reader, dict, END.format(looked_at=_platform_condition(reader)), wanted)
        named = await self.asset(reader, identity.asset_id(reader, refs)) if end and refs and not after else None
        if named and clearance in {None, named.clearance} and data_type in {None, named.data_type}:
            rows = sorted({row.asset_id: row for row in (*rows, named)}.values(), key=lambda row: row.asset_id)
        return rows, end["asset_id"] if end else None

    async def asset(self, reader: str, asset_id: str) -> AssetRow | None:
        return await self.one(reader, AssetRow, ASSET, {"id": asset_id})

    async def versions(self, reader: str, asset_id: str, after: int, limit: int) -> Sequence[VersionRow]:
        """Return one page, oldest first."""
        return await self.rows(reader, VersionRow, VERSIONS, {"id": asset_id, "after": after, "limit": limit})

    async def rows(
        self, reader: str, kind: type[Row], query: LiteralString, values: Mapping[str, Any]
    ) -> Sequence[Row]:
        """What the reader may see of the query's rows; with kind `dict`, as dictionaries."""
        async with self._connection() as connection, connection.transaction():
            await connection.execute("select set_config('app.platform_id', %s, true)", [reader])
            factory: Any = dict_row if kind is dict else class_row(kind)
            async with connection.cursor(row_factory=factory) as cursor:
                found: Sequence[Row] = await (await cursor.execute(query, values)).fetchall()
                return found

    async def one(self, reader: str, kind: type[Row], query: LiteralString, values: Mapping[str, Any]) -> Row | None:
        found = await self.rows(reader, kind, query, values)
        return found[0] if found else None

    async def answers(self) -> bool:
        """Whether the database answers."""
        async with self._connection() as connection:
            return (await (await connection.execute("select 1")).fetchone()) is not None

    async def _identity(self, query: LiteralString, value: str) -> Identity | None:
        async with self._connection() as connection:
            found = await (await connection.execute(query, [value])).fetchone()
        return None if found is None else _holder(*found)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncConnection[tuple[Any, ...]]]:
        """Hold a connection, or refuse where the database is away, busy or too slow."""
        try:
            async with self.pool.connection() as connection:
                yield connection
        except psycopg.DataError as error:
            raise MalformedRequest("Something in the request is no value that can be looked for.") from error
        except (psycopg.OperationalError, PoolTimeout) as error:
            told = "The platform's records cannot be read right now. Try again."
            raise BehindUnavailable(told, retry_after_seconds=RETRY_SECONDS) from error


def _holder(client_id: str, role: Role, platform_id: str | None, scopes: list[str]) -> Identity:
    return Identity(client_id, role, platform_id, frozenset(scopes))
