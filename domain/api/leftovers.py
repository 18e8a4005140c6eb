"""Routes for operators about leftovers: how much the collector has to remove, and files that no row names."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse

from domain.api.dependencies import ServiceState, Session, allowed
from domain.contracts.leftovers import EndedRequests, LeftoversView
from domain.repositories.leftovers import Leftovers
from domain.security import Identity
from domain.services.operations.audit import record
from domain.services.operations.leftovers import Collecting
from domain.services.operations.strays import Looking
from domain.state import Service

router = APIRouter(prefix="/api/v1/leftovers", tags=["operators"])
Operator = Annotated[Identity, Depends(allowed("operator", "admin"))]
LINES = "application/x-ndjson"


@router.get("", dependencies=[Depends(allowed("operator", "admin"))])
async def leftovers(session: Session, state: ServiceState) -> LeftoversView:
    """How many ended requests still have something of theirs kept, and how many are next."""
    patience = state.settings.leftovers()
    ended = await Leftovers(session).waiting(patience)
    return LeftoversView(
        ended=[EndedRequests.model_validate(each) for each in ended],
        kept_after_success_seconds=patience.after_success,
        kept_after_failure_seconds=patience.after_failure,
    )


@router.get("/files", dependencies=[Depends(allowed("operator", "admin"))])
async def look(state: ServiceState) -> StreamingResponse:
    """Go through all zones, which may take long: a line of JSON for each file that no row needs, then their number."""
    return StreamingResponse(_lines(state, removes=False), media_type=LINES)


@router.post("/files/remove")
async def remove(state: ServiceState, session: Session, who: Operator) -> StreamingResponse:
    """The same, and remove each of them but those whose names we give to nothing."""
    record(session, who, "strays.remove", "zones")
    return StreamingResponse(_lines(state, removes=True), media_type=LINES)


async def _lines(service: Service, *, removes: bool) -> AsyncIterator[str]:
    collecting = Collecting(service.database, service.zones, service.settings.leftovers())
    async for each in Looking(service.database, service.zones, collecting, removes).strays():
        yield f"{each.model_dump_json()}\n"
