"""Artifacts of one flow run in Prefect's UI, each made once and corrected afterwards: never two of one title.

Asked for by hand: Prefect's own functions send an event for each, which names all that surrounds the run.
"""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.exceptions import PrefectHTTPStatusError

HUNG_SECONDS = 10.0
Kind = Literal["markdown", "progress", "table"]


@dataclass
class ShownArtifact:
    """One artifact of a flow run. `is_new` says that no earlier process of this flow run can have made it."""

    prefect: PrefectClient
    flow_run_id: UUID
    kind: Kind
    key: str
    is_new: bool = True
    _id: str | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def show(self, data: Any, description: str) -> None:
        """Make the artifact, or correct what is shown. No run fails or waits long for its picture."""
        with contextlib.suppress(httpx.HTTPError, PrefectHTTPStatusError, TimeoutError):
            async with asyncio.timeout(HUNG_SECONDS), self._turn:
                told = {"data": data, "description": description}
                if self._id is None and not self.is_new:
                    self._id = await self._found()
                if self._id is None:
                    self._id = await self._made(told)
                else:
                    place = {"id": self._id}
                    await self.prefect.request("PATCH", "/artifacts/{id}", path_params=place, json=told)

    async def _made(self, told: Mapping[str, Any]) -> str:
        self.is_new = False  # where the answer is lost on its way, the artifact may be there
        body = {"type": self.kind, "key": self.key, "flow_run_id": str(self.flow_run_id), **told}
        made = await self.prefect.request("POST", "/artifacts/", json=body)
        return str(made.json()["id"])

    async def _found(self) -> str | None:
        wanted = {"key": {"any_": [self.key]}, "flow_run_id": {"any_": [str(self.flow_run_id)]}}
        found = await self.prefect.request("POST", "/artifacts/filter", json={"artifacts": wanted, "limit": 1})
        return next((str(one["id"]) for one in found.json()), None)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The data of a table: a JSON text."""
    return json.dumps([dict(row) for row in rows])


def quoted(text: str) -> str:
    """A text that may be a partner's, for a cell: Prefect's UI shows cells as Markdown, which nothing in it can be."""
    said = " ".join(text.replace("`", "'").split())
    return f"`{said}`" if said else ""
