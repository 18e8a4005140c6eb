"""Callbacks: what partners were told, how each try went, and sending one again."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse

from domain.api.dependencies import Session, callback_desk
from domain.console.forms import form_of
from domain.console.frame import frame
from domain.console.live import PageSubject
from domain.console.people import CONSOLE, Reader, check_form, need
from domain.console.rendering import page
from domain.rules.callbacks import CallbackState
from domain.services.operations.callbacks import CallbackDesk

router = APIRouter()
PAGE = 50
Desk = Annotated[CallbackDesk, Depends(callback_desk)]


@router.get("/callbacks")
async def callbacks(
    request: Request,
    session: Session,
    who: Reader,
    desk: Desk,
    state: Annotated[str, Query(max_length=20)] = "",
    after: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Callbacks, newest first."""
    around = await frame(request, session, who, "callbacks", PageSubject("callbacks"))
    wanted = CallbackState(state) if state in list(CallbackState) else None
    found = await desk.page(PAGE, after, None, wanted)
    return page("callbacks.html", **around, found=found, state=state, states=[each.value for each in CallbackState])


@router.get("/callbacks/{callback_id}")
async def callback(request: Request, session: Session, who: Reader, desk: Desk, callback_id: UUID) -> Response:
    """One callback with every try."""
    around = await frame(request, session, who, "callbacks", PageSubject("callbacks"))
    return page("callback.html", **around, callback=await desk.read(callback_id))


@router.post("/callbacks/{callback_id}/replay")
async def replay(
    callback_id: UUID, desk: Desk, who: Reader, form: Annotated[dict[str, str], Depends(form_of)]
) -> Response:
    """Send it again, as an operator."""
    check_form(who, form)
    need(who, "operator", "admin")
    await desk.replay(callback_id, who.identity)
    return RedirectResponse(f"{CONSOLE}/callbacks/{callback_id}", 303)
