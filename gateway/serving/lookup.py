"""All SQL of the serving room: a few views, read as the role cairn_serving; layers' tables are asked by tipg.

Knows no HTTP and judges nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import DictRow, class_row, dict_row
from psycopg_pool import AsyncConnectionPool

from domain.rules.clearance import Clearance, Exposure, Identity
from domain.rules.database_timeouts import READING_SECONDS
from domain.rules.publication import item_id
from domain.shared.database_address import DatabaseAddress
from domain.shared.database_connection import Answering, refuse_if_silent
from gateway.serving.lookup_cache import LookupCache

_READ_ONLY: Final = "-c default_transaction_read_only=on"
_COLUMNS: Final = (
    "SELECT asset_id, platform_id, ordinal, revision, clearance, approval, is_latest, exposure, cog_name, bands, "
    "parquet_name, table_name, layer FROM "
)
_SERVED: Final = _COLUMNS + "api.served_products"
_LATEST: Final = _SERVED + " WHERE asset_id = %s AND is_latest"
_VERSION: Final = _SERVED + " WHERE asset_id = %s AND ordinal = %s"
_STAGED: Final = _COLUMNS + "api.staged_products WHERE asset_id = %s AND ordinal = %s"
# Of each view one row that is not there, which its indexes tell: the first of all rows takes joining all of them.
_PING: Final = (
    "SELECT EXISTS (SELECT FROM api.served_products WHERE asset_id = ''), "
    "EXISTS (SELECT FROM api.staged_products WHERE asset_id = ''), "
    "EXISTS (SELECT FROM api.descriptions WHERE asset_id = ''), "
    "EXISTS (SELECT FROM api.identities WHERE client_id = '')"
)
_SERVED_AMONG: Final = _SERVED + " WHERE asset_id = ANY(%s)"
_IN_PARTS: Final = "SELECT asset_id, ordinal, revision FROM api.served_in_parts"
_IN_PARTS_AMONG: Final = _IN_PARTS + " WHERE asset_id = ANY(%s)"
_FILE: Final = (
    "SELECT name, media_type FROM api.served_files "
    "WHERE asset_id = %s AND ordinal = %s AND revision = %s AND starts_with(sha256, %s) ORDER BY name LIMIT 1"
)
_STAGED_FILE: Final = _FILE.replace("served_files", "staged_files")
_DESCRIPTIONS: Final = (
    "SELECT name FROM api.descriptions "
    "WHERE asset_id = %s AND ordinal = %s AND revision = %s AND role = %s ORDER BY name"
)
PARTS: Final = "stac_items"  # the role of the files that describe a revision's parts
_IDENTITY: Final = "SELECT client_id, role, platform_id FROM api.identities WHERE is_active AND "
_BY_SESSION: Final = "SELECT client_id, role, platform_id FROM api.sessions WHERE session_hash = %(named)s LIMIT 1"
_BY_SECRET: Final = _IDENTITY + "secret_hash = %(named)s UNION ALL " + _BY_SESSION
_BY_CLIENT: Final = _IDENTITY + "client_id = %(named)s LIMIT 1"

Among = frozenset[str] | None  # of which assets; of all


@dataclass(frozen=True)
class Product:
    """One revision: what it is, whose it is, where its bytes lie.

    A raster has a file, a vector layer a table; one that is catalogued in parts need have neither as a whole.
    """

    asset_id: str
    platform_id: str
    ordinal: int
    revision: int
    clearance: Clearance
    approval: str
    is_latest: bool
    exposure: Exposure
    cog_name: str | None
    bands: list[dict[str, Any]] | None = field(default_factory=list)
    parquet_name: str | None = None
    table_name: str | None = None
    layer: dict[str, Any] | None = None

    @property
    def approved(self) -> bool:
        return self.approval == "approved"

    @property
    def item_id(self) -> str:
        return item_id(self.asset_id, self.ordinal, self.revision)


@dataclass(frozen=True)
class ServedFile:
    """One file of a served revision, beside the product or a part of it."""

    name: str
    media_type: str


class Lookup:
    """The questions that serving asks the database."""

    def __init__(self, address: DatabaseAddress, pool_size: int, memory: LookupCache) -> None:
        self._memory = memory
        self._pool: AsyncConnectionPool[AsyncConnection[DictRow]] = AsyncConnectionPool(
            address.url,
            min_size=1,
            max_size=pool_size,
            open=False,
            timeout=2,
            connection_class=Answering,
            kwargs=address.options(
                autocommit=True, row_factory=dict_row, options=_READ_ONLY, statement_seconds=READING_SECONDS
            ),
            check=refuse_if_silent,
        )

    async def open(self) -> None:
        await self._pool.open(wait=True, timeout=10)

    async def close(self) -> None:
        await self._pool.close()

    def connections(self) -> tuple[int, int]:
        """Connections in use, and how many there may be."""
        told = self._pool.get_stats()
        return told["pool_size"] - told["pool_available"], told["pool_max"]

    async def ping(self) -> None:
        """Fail unless all views answer."""
        async with self._pool.connection() as connection:
            await connection.execute(_PING)

    async def identity(self, secret_hash: str) -> Identity | None:
        """Return who holds the token, key or console session of this digest."""
        return await self._identity(_BY_SECRET, secret_hash)

    async def identity_of(self, client_id: str) -> Identity | None:
        """The active client of this id, whose token was verified."""
        return await self._identity(_BY_CLIENT, client_id)

    async def _identity(self, query: LiteralString, value: str) -> Identity | None:
        return await self._memory.recall((query, value), lambda: self._read_identity(query, value))

    async def _read_identity(self, query: LiteralString, value: str) -> Identity | None:
        async with self._pool.connection() as connection, connection.cursor(row_factory=class_row(Identity)) as cursor:
            await cursor.execute(query, {"named": value})
            return await cursor.fetchone()

    async def product(self, asset_id: str, ordinal: int | None, serves: Callable[[Product], bool]) -> Product | None:
        """Return the served revision of a version; hidden ones take as long to find as missing ones."""
        query, values = (_LATEST, (asset_id,)) if ordinal is None else (_VERSION, (asset_id, ordinal))
        return await self._memory.recall(
            (query, values), lambda: self._product(query, values), lambda found: found is None or serves(found)
        )

    async def staged(self, asset_id: str, ordinal: int) -> Product | None:
        """The revision of one version that waits for its review."""
        return await self._product(_STAGED, (asset_id, ordinal))

    async def products(self, among: Among = None) -> list[Product]:
        """Every served revision, or those of these assets: of all there may be very many."""
        if among is None:
            return await self._memory.recall(_SERVED, lambda: self._products(_SERVED, ()))
        values = (sorted(among),)
        key = (_SERVED_AMONG, tuple(values[0]))
        return await self._memory.recall(key, lambda: self._products(_SERVED_AMONG, values))

    async def in_parts(self, among: Among = None) -> set[str]:
        """The item ids of the served revisions that are catalogued in parts."""
        if among is None:
            return await self._memory.recall(_IN_PARTS, lambda: self._read_in_parts(_IN_PARTS, ()))
        values = (sorted(among),)
        key = (_IN_PARTS_AMONG, tuple(values[0]))
        return await self._memory.recall(key, lambda: self._read_in_parts(_IN_PARTS_AMONG, values))

    async def _read_in_parts(self, query: LiteralString, values: tuple[object, ...]) -> set[str]:
        async with self._pool.connection() as connection, connection.cursor() as cursor:
            await cursor.execute(query, values)
            return {item_id(row["asset_id"], row["ordinal"], row["revision"]) for row in await cursor.fetchall()}

    async def file(self, product: Product, key: str) -> ServedFile | None:
        """Return the product's file whose digest begins like this. Two such files hold the same."""
        query = _FILE if product.approved else _STAGED_FILE
        place = (product.asset_id, product.ordinal, product.revision, key)
        row_factory = class_row(ServedFile)
        async with self._pool.connection() as connection, connection.cursor(row_factory=row_factory) as cursor:
            await cursor.execute(query, place)
            return await cursor.fetchone()

    async def descriptions(self, product: Product, role: str) -> list[str]:
        """The files in this role that describe the revision: its item, or the items of its parts."""
        place = (product.asset_id, product.ordinal, product.revision, role)
        return await self._memory.recall((_DESCRIPTIONS, place), lambda: self._read_descriptions(place))

    async def _read_descriptions(self, place: tuple[object, ...]) -> list[str]:
        async with self._pool.connection() as connection, connection.cursor() as cursor:
            await cursor.execute(_DESCRIPTIONS, place)
            return [row["name"] for row in await cursor.fetchall()]

    async def _product(self, query: LiteralString, values: tuple[object, ...]) -> Product | None:
        products = await self._products(query, values)
        return products[0] if products else None

    async def _products(self, query: LiteralString, values: tuple[object, ...]) -> list[Product]:
        async with self._pool.connection() as connection, connection.cursor(row_factory=class_row(Product)) as cursor:
            await cursor.execute(query, values)
            return await cursor.fetchall()
