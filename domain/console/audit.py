"""The audit, for operators: who did what, newest first, and whether its chain holds."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from domain.api.dependencies import ServiceState, Session
from domain.console.frame import frame
from domain.console.live import PageSubject
from domain.console.people import Reader, need
from domain.console.rendering import page
from domain.repositories.console import ConsoleLists
from domain.services.operations.audit import Verification

router = APIRouter()
PAGE = 100


@router.get("/audit")
async def audit(
    request: Request,
    session: Session,
    state: ServiceState,
    who: Reader,
    subject: Annotated[str, Query(max_length=200)] = "",
    actor: Annotated[str, Query(max_length=63)] = "",
    before: Annotated[int | None, Query(ge=1)] = None,
    verify: bool = False,
) -> Response:
    """Acts by what they are about and by whom they were done."""
    need(who, "operator", "admin")
    around = await frame(request, session, who, "audit", PageSubject("audit"))
    rows = await ConsoleLists(session).acts(subject.strip(), actor.strip(), before, PAGE)
    return page(
        "audit.html",
        **around,
        rows=rows,
        subject=subject,
        actor=actor,
        verdict=await Verification(session, state.settings.audit_chain()).run() if verify else None,
        older=rows[-1].audit_id if len(rows) == PAGE else None,
    )
