"""The items of a run's fan-outs, for staff."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query

from domain.api.dependencies import ServiceState, allowed_beforehand
from domain.contracts.items import ItemPage, ItemState
from domain.rules.paging import MAX_PAGE
from domain.security import STAFF
from domain.services.operations.items import ItemDesk

router = APIRouter(prefix="/api/v1", tags=["operators"], dependencies=[Depends(allowed_beforehand(*STAFF))])
NodePath = Annotated[str, Path(max_length=500, pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")]


@router.get("/runs/{run_id}/nodes/{node}/items")
async def list_items(
    run_id: UUID,
    node: NodePath,
    state: ServiceState,
    after: Annotated[int, Query(ge=-1, description="`next` of the page before")] = -1,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
    status: Annotated[ItemState | None, Query(alias="state")] = None,
) -> ItemPage:
    """How the items of a fan-out ended; within a sub-workflow its node is named as in `outer.inner`."""
    return await ItemDesk(state.database, state.zones.runs).page(run_id, node, after, limit, status)
