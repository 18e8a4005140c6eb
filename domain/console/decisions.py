"""What people decide on the console's pages: the API's own use cases, each in one transaction of its own."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.ext.asyncio import AsyncSession

from domain.api import dependencies
from domain.api.dependencies import ServiceState
from domain.console.forms import checked, form_of
from domain.console.people import CONSOLE, NotSignedIn, Person, check_form, need, person_of
from domain.console.versions import Ordinal, version_page
from domain.contracts.assets import ChangeClearance, ChangeExposure
from domain.contracts.problems import ProblemError
from domain.contracts.reviews import Approve, Reject, Unpublish
from domain.services.assets import AssetChanges
from domain.services.reviews import Reviews
from domain.state import Service

router = APIRouter()
Form = Annotated[dict[str, str], Depends(form_of)]
Act = Callable[[AsyncSession], Awaitable[object]]


async def decider(request: Request, state: ServiceState, form: Form) -> Person:
    """Who sent the form, known before the decision's own transaction begins."""
    async with state.database.transaction() as session:
        who = await person_of(request, session)
    if who is None:
        raise NotSignedIn
    check_form(who, form)
    need(who, "reviewer", "admin")
    return who


Decider = Annotated[Person, Depends(decider)]


@router.post("/versions/{asset_id}/{ordinal}/approve")
async def approve(
    request: Request, state: ServiceState, who: Decider, form: Form, asset_id: str, ordinal: Ordinal
) -> Response:
    """Serve this revision from now on."""

    async def act(session: AsyncSession) -> object:
        wanted = checked(
            Approve,
            revision=form.get("revision"),
            clearance_level=form.get("clearance_level"),
            comment=form.get("comment") or None,
        )
        return await (await _reviews(session, state, form)).approve(asset_id, ordinal, wanted, who.identity)

    return await _done(request, state, who, form, asset_id, ordinal, "approve", act)


@router.post("/versions/{asset_id}/{ordinal}/reject")
async def reject(
    request: Request, state: ServiceState, who: Decider, form: Form, asset_id: str, ordinal: Ordinal
) -> Response:
    """Refuse this revision, with a reason."""

    async def act(session: AsyncSession) -> object:
        wanted = checked(Reject, revision=form.get("revision"), reason=form.get("reason", ""))
        return await (await _reviews(session, state, form)).reject(asset_id, ordinal, wanted, who.identity)

    return await _done(request, state, who, form, asset_id, ordinal, "reject", act)


@router.post("/versions/{asset_id}/{ordinal}/unpublish")
async def unpublish(
    request: Request, state: ServiceState, who: Decider, form: Form, asset_id: str, ordinal: Ordinal
) -> Response:
    """Stop serving this revision."""

    async def act(session: AsyncSession) -> object:
        wanted = checked(Unpublish, revision=form.get("revision"), reason=form.get("reason", ""))
        return await (await _reviews(session, state, form)).unpublish(asset_id, ordinal, wanted, who.identity)

    return await _done(request, state, who, form, asset_id, ordinal, "unpublish", act)


@router.post("/versions/{asset_id}/{ordinal}/clearance")
async def clearance(
    request: Request, state: ServiceState, who: Decider, form: Form, asset_id: str, ordinal: Ordinal
) -> Response:
    """Raise or lower who may read the asset that this version belongs to."""

    async def act(session: AsyncSession) -> object:
        wanted = checked(ChangeClearance, clearance_level=form.get("clearance_level"), reason=form.get("reason", ""))
        return await (await _changes(session, state, form)).clearance(asset_id, wanted, who.identity)

    return await _done(request, state, who, form, asset_id, ordinal, "clearance", act)


@router.post("/versions/{asset_id}/{ordinal}/exposure")
async def exposure(
    request: Request, state: ServiceState, who: Decider, form: Form, asset_id: str, ordinal: Ordinal
) -> Response:
    """Offer the latest approved version of the asset only, or all of them."""

    async def act(session: AsyncSession) -> object:
        wanted = checked(ChangeExposure, exposure=form.get("exposure"))
        return await (await _changes(session, state, form)).exposure(asset_id, wanted, who.identity)

    return await _done(request, state, who, form, asset_id, ordinal, "exposure", act)


async def _done(
    request: Request,
    state: Service,
    who: Person,
    form: dict[str, str],
    asset_id: str,
    ordinal: int,
    verb: str,
    act: Act,
) -> Response:
    """Back to the version's page: what was refused is said there, beside what was typed."""
    try:
        async with state.database.transaction() as session:
            await act(session)
    except ProblemError as refused:
        async with state.database.transaction() as session:
            return await version_page(request, session, state, who, asset_id, ordinal, refused, verb, form)
    return RedirectResponse(f"{CONSOLE}/versions/{asset_id}/{ordinal}", 303)


async def _reviews(session: AsyncSession, state: Service, form: dict[str, str]) -> Reviews:
    desk = await dependencies.export_desk(session, state)
    return await dependencies.reviews(session, state, desk, _if_match(form, "version_lock"))


async def _changes(session: AsyncSession, state: Service, form: dict[str, str]) -> AssetChanges:
    return await dependencies.asset_changes(
        session, await dependencies.export_desk(session, state), _if_match(form, "asset_lock")
    )


def _if_match(form: dict[str, str], name: str) -> str | None:
    """The state that the form's page showed."""
    return f'"{form[name]}"' if form.get(name) else None
