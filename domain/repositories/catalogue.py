"""pgSTAC, in the same database and therefore in the same transaction as the decision that publishes."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.adapters.catalog import COLUMNS, BaseItem, Rows
from domain.db import driver
from domain.rules.publication import Holdings

COPY: Final = sql.SQL("copy pgstac.items ({}) from stdin").format(sql.SQL(", ").join(map(sql.Identifier, COLUMNS)))
OF_REVISION: Final = "collection = :collection and (id = :item or starts_with(id, :item || '-'))"
HELD: Final = text("""
    select min(datetime) as since, max(end_datetime) as until, coalesce(jsonb_agg(content -> 'bbox'), '[]') as boxes,
        array_remove(array_agg(distinct content #>> '{properties,proj:code}'), null) as projections
    from pgstac.items where collection = :collection
""")
PARTITION: Final = text("""
    select pgstac.check_partition(cast(:collection as text), span, span)
    from tstzrange(cast(:since as timestamptz), cast(:until as timestamptz), '[]') span
""")


@dataclass(frozen=True)
class Catalogue:
    session: AsyncSession

    async def begin(self, collection: dict[str, Any]) -> BaseItem:
        """Have the collection there; returns what its items are stored without."""
        new = "insert into pgstac.collections (content) values (cast(:content as jsonb)) on conflict do nothing"
        async with self._found():
            await self.session.execute(text(new), {"content": json.dumps(collection)})
            query = text("select base_item, base_item_id from pgstac.current_base_item(:collection)")
            content, number = (await self.session.execute(query, {"collection": collection["id"]})).one()
        return BaseItem(content, number)

    async def put(self, item_id: str, collection_id: str, rows: Rows) -> None:
        """Make the items of a revision visible, in place of what there is of it."""
        await self.withdraw(item_id, collection_id)
        span = {"collection": collection_id, "since": rows.since, "until": rows.until}
        async with self._found():
            await self.session.execute(PARTITION, span)
            async with (await driver(self.session)).cursor() as cursor, cursor.copy(COPY) as copy:
                await copy.write(rows.copied)

    async def describe(self, collection: dict[str, Any]) -> None:
        """Say anew what the collection is and holds. One that is not there is no error."""
        statement = text("update pgstac.collections set content = cast(:content as jsonb) where id = :id")
        async with self._found():
            await self.session.execute(statement, {"content": json.dumps(collection), "id": collection["id"]})

    async def holdings(self, collection_id: str) -> Holdings:
        """What the collection holds now."""
        found = (await self.session.execute(HELD, {"collection": collection_id})).one()
        boxes = {tuple(box) for box in found.boxes if box}
        return Holdings(sorted(boxes), found.since, found.until, sorted(found.projections or []))

    async def withdraw(self, item_id: str, collection_id: str) -> None:
        """Make the items of a revision invisible; where there are none it is no error."""
        statement = text(f"delete from pgstac.items where {OF_REVISION}")  # noqa: S608 - a condition of ours
        async with self._found():
            await self.session.execute(statement, {"item": item_id, "collection": collection_id})

    @asynccontextmanager
    async def _found(self) -> AsyncIterator[None]:
        """pgSTAC's functions and triggers find their tables by search path, which ends with this transaction."""
        await self.session.execute(text("set local search_path to pgstac, public"))
        yield
        await self.session.execute(text("set local search_path to default"))
