"""The route by which workers announce themselves."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path

from domain.api.dependencies import Session, allowed
from domain.contracts.pools import Beacon
from domain.repositories.pools import Pools

router = APIRouter(prefix="/api/v1", tags=["workers"])
PoolName = Annotated[str, Path(max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


@router.post("/pools/{pool}/beacon", status_code=204, dependencies=[Depends(allowed("worker"))])
async def beacon(pool: PoolName, message: Beacon, session: Session) -> None:
    """A worker takes work from this pool. A pool whose workers all fall silent is not served."""
    await Pools(session).beacon(pool, message)
