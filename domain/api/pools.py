"""The routes by which workers announce themselves, and hear that there is something to do."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from domain.api.dependencies import ServiceState, Session, allowed, allowed_beforehand
from domain.contracts.pools import Beacon, RunsSent
from domain.repositories.pools import Pools
from domain.shared.notices import SENT_CHANNEL, happens_within

router = APIRouter(prefix="/api/v1", tags=["workers"])
PoolName = Annotated[str, Path(max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


@router.post("/pools/{pool}/beacon", status_code=204, dependencies=[Depends(allowed("worker"))])
async def beacon(pool: PoolName, message: Beacon, session: Session) -> None:
    """A worker takes work from this pool. A pool whose workers all fall silent is not served."""
    await Pools(session).beacon(pool, message)


@router.get("/pools/{pool}/sent", dependencies=[Depends(allowed_beforehand("worker"))])
async def sent(
    pool: PoolName,
    state: ServiceState,
    wait_seconds: Annotated[float, Query(ge=0, le=30, description="Hold the answer so long, or until it is yes")] = 0,
) -> RunsSent:
    """Whether flow runs were made for this pool, told the moment they are there.

    So its workers need not ask Prefect often. What was made before the question is not told: they look now and then.
    """
    with state.fences.watching(pool, also=SENT_CHANNEL) as woken:
        return RunsSent(sent=await happens_within(woken, wait_seconds) and not state.fences.closed)
