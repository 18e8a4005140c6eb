"""Is the gateway up, and what stands behind it?"""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from gateway.state import Gateway, gateway

router = APIRouter(tags=["probes"])
State = Annotated[Gateway, Depends(gateway)]


@router.get("/api/livez")
@router.get("/livez", include_in_schema=False)
async def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@router.get("/api/readyz")
@router.get("/readyz", include_in_schema=False)
async def readyz(state: State) -> dict[str, str]:
    """The process and its read-only database connection answer."""
    await state.queries.answers()
    return {"status": "ready"}


@router.get("/api/gateway/health")
async def health(state: State, response: Response) -> dict[str, str]:
    """Whether submissions would be taken right now."""
    domain = await state.domain.answers()
    response.status_code = 200 if domain else 503
    return {"gateway": "ok", "domain": "ok" if domain else "unavailable"}
