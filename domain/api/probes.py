"""Whether the service lives, and whether it can be asked."""

from fastapi import APIRouter

from domain.api.dependencies import ServiceState
from domain.errors import DatabaseUnavailable

router = APIRouter(tags=["probes"])
RETRY_SECONDS = 1


@router.get("/livez")
async def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@router.get("/readyz")
async def readyz(state: ServiceState) -> dict[str, str | list[str]]:
    """The process and its database answer, in time. A workflow whose file is refused is named, and hinders no other."""
    try:
        await state.database.ready.check()
    except TimeoutError as error:
        told = "It has taken a question and gives no answer."
        raise DatabaseUnavailable(told, retry_after_seconds=RETRY_SECONDS) from error
    refused = sorted(state.definitions.refused)
    return {"status": "ready"} | ({"refused_workflows": refused} if refused else {})
