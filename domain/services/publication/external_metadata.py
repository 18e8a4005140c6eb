"""Decides which words may stand in the external database, and removes the others.

Not each change that ends publicity has it done but the state after it, looked at again and again: whatever a foreign
database missed while it was away, or took late, is gone after a later look. No transaction of ours waits for it.
"""

from dataclasses import dataclass

from domain.db import Database
from domain.repositories import external
from domain.repositories.layers import Layers
from domain.services.operations.audit import THE_SERVICE, record


@dataclass(frozen=True)
class OutsideWords:
    database: Database
    url: str

    async def recall(self) -> list[str]:
        """Remove words that may not stand outside; return of which assets. Assets unknown to us are others'."""
        standing = await external.standing(self.url)
        async with self.database.transaction() as session:
            recalled = await Layers(session).recall_external(standing)
        gone = await external.remove(self.url, recalled) if recalled else []
        if gone:
            async with self.database.transaction() as session:
                for asset_id in gone:
                    record(session, THE_SERVICE, "metadata.recall_external", f"asset/{asset_id}")
        return gone
