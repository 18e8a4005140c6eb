"""Getting in and out: by a provider of identities, or as a local user."""

import secrets
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse

from domain.api.dependencies import ServiceState, Session
from domain.console.forms import form_of
from domain.console.oidc import PENDING_SECONDS, Provider, SignInRefused
from domain.console.people import CONSOLE, PENDING_COOKIE, Desk, FrontDesk, Reader, check_form, give_cookie
from domain.console.rendering import page
from domain.contracts.console import SESSION_COOKIE
from domain.contracts.problems import ProblemError
from domain.repositories.sessions import Sessions
from domain.rules.console import FIRST_PAGE, place_within
from domain.security import secret_hash

router = APIRouter()
Next = Annotated[str, Query(alias="next", max_length=500)]
Form = Annotated[dict[str, str], Depends(form_of)]


async def provider(request: Request) -> Provider | None:
    """The provider that this process was told of, if any."""
    made: Provider | None = request.app.state.provider
    return made


Told = Annotated[Provider | None, Depends(provider)]


@router.get("/sign-in")
async def sign_in_page(desk: Desk, told: Told, wanted: Next = FIRST_PAGE) -> Response:
    """The ways to sign in."""
    return _page(desk, told, place_within(wanted))


@router.post("/sign-in")
async def sign_in_local(request: Request, state: ServiceState, told: Told, form: Form) -> Response:
    """Sign in as a local user."""
    wanted = place_within(form.get("next", FIRST_PAGE))
    address = request.client.host if request.client else ""
    async with state.database.transaction() as session:
        desk = FrontDesk(session, state)
        try:
            secret = await desk.by_key(form.get("username", ""), form.get("password", ""), address)
        except ProblemError as refused:
            return _page(desk, told, wanted, refused, form.get("username", ""))
    answer = RedirectResponse(wanted, 303)
    give_cookie(answer, SESSION_COOKIE, secret, "/", state)
    return answer


@router.get("/sign-in/provider")
async def sign_in_elsewhere(state: ServiceState, told: Told, wanted: Next = FIRST_PAGE) -> Response:
    """Send the browser to the provider, and remember that it went."""
    if told is None:
        raise SignInRefused("No sign-in service is set up here.")
    address, pending = await told.begin(f"{str(state.settings.public_url).rstrip('/')}{CONSOLE}/signed-in")
    secret = secrets.token_urlsafe(32)
    async with state.database.transaction() as session:
        kept = pending | {"next": place_within(wanted)}
        await Sessions(session).begin(secret_hash(secret), "", PENDING_SECONDS, pending=kept)
    answer = RedirectResponse(address, 303)
    give_cookie(answer, PENDING_COOKIE, secret, CONSOLE, state)
    return answer


@router.get("/signed-in")
async def signed_in_elsewhere(request: Request, state: ServiceState, told: Told) -> Response:
    """The provider sent the browser back: sign in whom it names."""
    secret = request.cookies.get(PENDING_COOKIE, "")
    async with state.database.transaction() as session:
        pending = await Sessions(session).take_pending(secret_hash(secret))
    if told is None or pending is None:
        raise SignInRefused("This browser has not begun to sign in, or too long ago. Begin again.")
    name = await told.finish(pending, dict(request.query_params))
    async with state.database.transaction() as session:
        made = await FrontDesk(session, state).by_name(name)
    answer = RedirectResponse(place_within(pending["next"]), 303)
    answer.delete_cookie(PENDING_COOKIE, path=CONSOLE)
    give_cookie(answer, SESSION_COOKIE, made, "/", state)
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, session: Session, desk: Desk, who: Reader, form: Form) -> Response:
    """End the session, for every copy of its cookie."""
    check_form(who, form)
    await desk.out(request.cookies[SESSION_COOKIE], who.identity)
    answer = RedirectResponse(f"{CONSOLE}/sign-in", 303)
    answer.delete_cookie(SESSION_COOKIE, path="/")
    return answer


def _page(
    desk: FrontDesk, told: Provider | None, wanted: str, refused: ProblemError | None = None, username: str = ""
) -> Response:
    return page(
        "sign_in.html",
        status=refused.status if refused else 200,
        local_users=desk.local_users,
        provider=told is not None,
        next=wanted,
        username=username,
        refused=refused.detail if refused else "",
    )
