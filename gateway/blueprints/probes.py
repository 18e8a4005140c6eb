"""Is the gateway up, and what stands behind it? Anybody may ask, so what stands behind is asked once a second."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from gateway.errors import BehindUnavailable
from gateway.reads.queries import RETRY_SECONDS
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
    if not await state.remembered.answer("database", lambda: _is_readable(state)):
        raise BehindUnavailable("The platform's records cannot be read right now.", retry_after_seconds=RETRY_SECONDS)
    return {"status": "ready"}


@router.get("/api/gateway/health")
async def health(state: State, response: Response) -> dict[str, str]:
    """Whether submissions would be taken right now."""
    domain = await state.remembered.answer("domain", state.domain.answers)
    response.status_code = 200 if domain else 503
    return {"gateway": "ok", "domain": "ok" if domain else "unavailable"}


async def _is_readable(state: Gateway) -> bool:
    try:
        return await state.queries.answers()
    except BehindUnavailable:
        return False
