"""Vector tiles: which features of a layer a tile holds, and how many there are. Writes SQL, opens no connection.

A tile holds so many features and so many bytes. Where there are more, those with the lowest hashes of their numbers are
kept: whatever order the rows have, the gaps are spread evenly over the map. The order is the same in every tile and at
every zoom, so a feature stays when a map is zoomed in. What is left out is told.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import morecantile
from tipg.collections import Column, ItemList, PgCollection

from gateway.serving.problems import too_large

MAX_FEATURES: Final = 10_000
MAX_BYTES: Final = 4 * 1024**2
# A feature heavier than this comes after the lighter ones: it goes in where there is room left.
_HEAVY_BYTES: Final = MAX_BYTES // 8
# So many are counted one by one; of more, the number is told from how densely the hashes lie, within about one percent.
MAX_COUNTED: Final = 50_000
LAYER_IN_TILE: Final = "default"
SHOWN, MATCHED = "Cairn-Features-Shown", "Cairn-Features-Matched"
_UNITS: Final = 4096  # a side of the tile, in the numbers that are written into it
_SPECK_UNITS: Final = 4  # half a side of what stands for a feature smaller than one of them
_HASHES: Final = 2**32
# What a page of features takes for each, for a value, a corner and a letter: as the database's words, objects and text.
_MADE_BYTES, _VALUE_BYTES, _MADE_CORNER_BYTES, _MADE_LETTER_BYTES = 2000, 150, 250, 4
_MEGABYTE: Final = 1024**2
# What a tile takes at most for a feature, for a corner of it, for a number, and for a text beside its letters.
_FEATURE_BYTES, _CORNER_BYTES, _NUMBER_BYTES, _TEXT_BYTES = 32, 6, 20, 16


@dataclass(frozen=True)
class Counted:
    """How many features an answer holds of those that it was asked for."""

    shown: int
    matched: int
    is_exact: bool = True

    @property
    def headers(self) -> dict[str, str]:
        """Return the counts as whole numbers; an estimate says so behind it."""
        return {SHOWN: str(self.shown), MATCHED: str(self.matched) + ("" if self.is_exact else ";about")}


@dataclass(frozen=True)
class PageRoom:
    """The memory that a page's features may take, that one feature may take, and the budget that grants it."""

    page_bytes: int
    one_bytes: int
    enter: Callable[[int], Awaitable[None]]


@dataclass(frozen=True)
class VectorTile:
    content: bytes
    counted: Counted


class LayerCollection(PgCollection):
    """A layer's table as a tipg collection that makes its own tiles and counts its features."""

    _room: PageRoom | None = None
    _counted: Counted | None = None
    _next_offset: int | None = None

    async def features(self, *given: Any, **wanted: Any) -> ItemList:
        """A page of features, by tipg. How many they are of how many is kept in `counted` and `next_offset`."""
        found = await super().features(*given, **wanted)
        self._counted, self._next_offset = Counted(len(found["items"]), found["matched"] or 0), found["next"]
        return found

    def read_within(self, room: PageRoom) -> None:
        """Bound pages to this memory: a page that needs more has fewer features, and the next goes on."""
        self._room = room

    async def _features_query(self, conn: Any, *, limit: int | None = None, **asked: Any) -> Any:
        if self._room is not None:
            limit = await self._fitting(conn, limit or 1, asked, self._room)
        async for feature in super()._features_query(conn, limit=limit, **asked):
            yield feature

    async def _fitting(self, connection: Any, limit: int, asked: Mapping[str, Any], room: PageRoom) -> int:
        """Count the features that fit into the room, by asking for their sizes before the features."""
        is_lighter = asked["bbox_only"] or asked["simplify"]
        drawn = self._geom_expr(self.get_geometry_column(), asked["bbox_only"], asked["simplify"])
        weight = self._memory(drawn if is_lighter and drawn else '"geom"')
        rows = await connection.fetch(
            f"SELECT {weight} AS weight {self._from(None, [])} {self._where_clause(asked['where'])} "
            f"{self._sortby(asked['sortby'])} LIMIT {int(limit)} OFFSET {int(asked['offset'] or 0)}"
        )
        count, size = fitting([row["weight"] for row in rows], room)
        await room.enter(size)
        return count

    def _memory(self, shape: str) -> str:
        """Return the SQL of the memory that a feature takes while a page is made."""
        texts = [
            name for name, each in zip(self._select_property_columns(None), self._text_columns(), strict=True) if each
        ]
        parts = [
            f"{_MADE_BYTES + _VALUE_BYTES * len(self._text_columns())}",
            f"{_MADE_CORNER_BYTES} * coalesce(ST_NPoints({shape}), 0)::bigint",
            *(f"{_MADE_LETTER_BYTES} * coalesce(octet_length({name}), 0)::bigint" for name in texts),
        ]
        return " + ".join(parts)

    @property
    def counted(self) -> Counted | None:
        """The counts of the page that was asked for; None before."""
        return self._counted

    @property
    def next_offset(self) -> int | None:
        """Where the page after it begins, if there is one."""
        return self._next_offset

    async def tile(self, connection: Any, tms: morecantile.TileMatrixSet, place: morecantile.Tile) -> VectorTile:
        """The tile at that place, on a connection of asyncpg's."""
        where = self._where_clause(self.cql_where(tms=tms, tile=place))
        row = await connection.fetchrow(self._tile_query(where, tms, place), LAYER_IN_TILE)
        return VectorTile(bytes(row["content"] or b""), await self._count_in_tile(connection, where, row))

    async def _count_in_tile(self, connection: Any, where: str, row: Mapping[str, Any]) -> Counted:
        """Count the features of a tile, estimating where there are too many to count."""
        found, inside = row["found"], row["inside"]
        if found < MAX_FEATURES:
            return Counted(row["shown"], inside)
        bounded = f"SELECT FROM {self._qualified_name} {where} LIMIT {MAX_COUNTED + 1}"
        matched = await connection.fetchval(f"SELECT count(*) FROM ({bounded}) AS bounded")  # noqa: S608 - see below
        is_exact = matched <= MAX_COUNTED and inside == found
        matched = matched if matched <= MAX_COUNTED else max(matched, estimated(found, row["last_hash"]))
        return Counted(row["shown"], round(matched * inside / found), is_exact)

    def _tile_query(self, where: str, tms: morecantile.TileMatrixSet, place: morecantile.Tile) -> str:
        """Return the query for a tile and its four counts. All names come from the register and are quoted."""
        names = self._select_property_columns(None)
        columns = ", ".join([*names, '"tile.fid"', "geom"])
        return f"""
            WITH found AS MATERIALIZED (
                SELECT {", ".join([*names, "geom"])}, fid AS "tile.fid", hashint8(fid) AS "tile.hash"
                FROM {self._qualified_name} {where} ORDER BY hashint8(fid), fid LIMIT {MAX_FEATURES}
            ), drawn AS MATERIALIZED (
                SELECT {", ".join([*names, '"tile.fid"', '"tile.hash"'])}, {self._shape_or_speck(tms, place)} AS geom
                FROM (SELECT *, ST_PointOnSurface(geom) AS "tile.point" FROM found) AS pointed
            ), weighed AS (
                SELECT *, {self._row_weight()} AS "tile.weight" FROM drawn WHERE geom IS NOT NULL
            ), summed AS (
                SELECT *, sum("tile.weight") OVER (
                    ORDER BY "tile.weight" > {_HEAVY_BYTES}, "tile.hash", "tile.fid" ROWS UNBOUNDED PRECEDING
                ) AS "tile.bytes" FROM weighed
            ), kept AS MATERIALIZED (
                SELECT {columns} FROM summed WHERE "tile.bytes" <= {MAX_BYTES}
            )
            SELECT
                (SELECT ST_AsMVT(kept, $1, {_UNITS}, 'geom', 'tile.fid' ORDER BY "tile.fid") FROM kept) AS content,
                (SELECT count(*) FROM kept) AS shown,
                (SELECT count(*) FROM found) AS found,
                (SELECT count(*) FROM weighed) AS inside,
                (SELECT max("tile.hash") FROM found) AS last_hash
        """  # noqa: S608

    def _shape_or_speck(self, tms: morecantile.TileMatrixSet, place: morecantile.Tile) -> str:
        """Return the SQL of a feature's shape in the tile; one smaller than a unit becomes a speck at its place."""
        shape, point = (self._geometry_in_tile_units(name, tms, place) for name in ("geom", "tile.point"))
        square = f"ST_Expand({point}, {_SPECK_UNITS})"
        speck = (
            f"CASE ST_Dimension(geom) WHEN 2 THEN ST_ForcePolygonCCW({square}) "
            f"WHEN 1 THEN ST_BoundingDiagonal({square}) END"
        )
        return f"COALESCE({shape}, {speck})"

    def _geometry_in_tile_units(self, name: str, tms: morecantile.TileMatrixSet, place: morecantile.Tile) -> str:
        """What tipg selects for a geometry column: reprojected, cut to the tile, in whole units."""
        column = Column(name=name, type="geometry")
        selected = self._select_mvt(properties=[], geometry_column=column, tms=tms, tile=place)
        return selected.removeprefix("SELECT ").removesuffix(" AS geom")

    def _row_weight(self) -> str:
        """Return the SQL of the most bytes that a row takes in a tile, without reading long texts."""
        texts = [
            name for name, each in zip(self._select_property_columns(None), self._text_columns(), strict=True) if each
        ]
        numbers = len(self._text_columns()) - len(texts)
        parts = [
            f"{_FEATURE_BYTES + _TEXT_BYTES * len(texts) + _NUMBER_BYTES * numbers}",
            f"{_CORNER_BYTES} * ST_NPoints(geom)::bigint",
            *(f"coalesce(octet_length({name}), 0)" for name in texts),
        ]
        return " + ".join(parts)

    def _text_columns(self) -> list[bool]:
        """Return for each column of the tile whether it holds text."""
        types = {column.name: column.type for column in self.properties}
        return [types[name] == "text" for name in self.columns(None)]


def fitting(weights: Sequence[int], room: PageRoom) -> tuple[int, int]:
    """Return how many of these features make a page, one at least, and their memory together."""
    if weights and weights[0] > room.one_bytes:
        raise too_large(
            f"The next feature takes {weights[0] // _MEGABYTE:,} MB of memory to read; one request may take "
            f"{room.one_bytes // _MEGABYTE:,} MB. Ask with simplify or bbox-only, or read data.parquet."
        )
    sums = [total for total in accumulate(weights) if total <= room.page_bytes] or list(weights[:1])
    return max(1, len(sums)), sums[-1] if sums else 0


def estimated(count: int, last_hash: int) -> int:
    """Estimate the number of features from the last of their hashes, which are spread evenly."""
    share = (last_hash + _HASHES // 2 + 1) / _HASHES
    return round((count - 1) / share)
