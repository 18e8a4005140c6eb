"""pgSTAC, in the same database and therefore in the same transaction as the decision that publishes."""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession


@dataclass(frozen=True)
class Catalogue:
    session: AsyncSession

    async def publish(self, collection: dict[str, Any], item: dict[str, Any]) -> None:
        """Make the item visible, in its collection."""
        await self._call("upsert_collection", collection)
        await self._call("upsert_item", item)

    async def withdraw(self, item_id: str, collection_id: str) -> None:
        """Make the item invisible; one that is not there is no error."""
        statement = text("delete from pgstac.items where id = :item and collection = :collection")
        await self.session.execute(statement, {"item": item_id, "collection": collection_id})

    async def _call(self, function: str, content: dict[str, Any]) -> None:
        # pgSTAC's functions find their tables by search path, which ends with this transaction.
        await self.session.execute(text("set local search_path to pgstac, public"))
        statement = text(f"select pgstac.{function}(cast(:content as jsonb))")
        await self.session.execute(statement, {"content": json.dumps(content)})
        await self.session.execute(text("set local search_path to default"))
