"""What the gateway reads by itself, as a role that cannot write: the views of schema `api`, and nothing else."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool

from domain.rules.clearance import Identity


@dataclass(frozen=True)
class PlatformRow:
    """A registry row: how a platform names its assets and versions."""

    platform_id: str
    required_refs: list[str]
    optional_refs: list[str]
    version_ref: str


@dataclass(frozen=True)
class RequestRow:
    """A request as its partner may know it."""

    request_id: UUID
    platform_id: str
    status: str
    created_at: datetime
    finished_at: datetime | None
    problem: dict[str, Any] | None
    outputs: dict[str, Any] | None
    asset_id: str | None
    ordinal: int | None
    revision: int | None
    version_label: str | None
    clearance: str | None
    approval: str | None
    nodes_total: int
    nodes_done: int
    fraction: float


REQUEST_COLUMNS = ", ".join(RequestRow.__dataclass_fields__)


@dataclass(frozen=True)
class Queries:
    pool: AsyncConnectionPool

    async def identity(self, secret_hash: str) -> Identity | None:
        """The active client whose secret has this hash."""
        return await self._identity("secret_hash = %s", secret_hash)

    async def identity_of(self, client_id: str) -> Identity | None:
        """The active client of this id, whose token was verified."""
        return await self._identity("client_id = %s", client_id)

    async def _identity(self, condition: LiteralString, value: str) -> Identity | None:
        query = "select client_id, role, platform_id from api.identities where is_active and " + condition + " limit 1"  # noqa: S608 - our words
        async with self.pool.connection() as connection, connection.cursor(row_factory=class_row(Identity)) as cursor:
            await cursor.execute(query, [value])
            return await cursor.fetchone()

    async def platform(self, platform_id: str) -> PlatformRow | None:
        async with (
            self.pool.connection() as connection,
            connection.cursor(row_factory=class_row(PlatformRow)) as cursor,
        ):
            await cursor.execute(
                "select platform_id, required_refs, optional_refs, version_ref from api.platforms"
                " where platform_id = %s",
                [platform_id],
            )
            return await cursor.fetchone()

    async def request(self, request_id: UUID) -> RequestRow | None:
        async with self.pool.connection() as connection, connection.cursor(row_factory=class_row(RequestRow)) as cursor:
            query = f"select {REQUEST_COLUMNS} from api.requests where request_id = %s"  # noqa: S608 - our own names
            await cursor.execute(query.encode(), [request_id])
            return await cursor.fetchone()

    async def answers(self) -> bool:
        """Whether the database answers."""
        async with self.pool.connection() as connection:
            return (await (await connection.execute("select 1")).fetchone()) is not None
