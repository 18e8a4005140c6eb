"""Getting in and out: by a provider of identities, or as a local user."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse

from domain.api.dependencies import ServiceState, Session
from domain.console.forms import form_of
from domain.console.oidc import Provider, SignInRefused
from domain.console.pending import PENDING_SECONDS, PendingSignIns
from domain.console.people import CONSOLE, PENDING_COOKIE, Desk, FrontDesk, Reader, check_form, give_cookie
from domain.console.rendering import page
from domain.contracts.console import SESSION_COOKIE
from domain.contracts.problems import ProblemError
from domain.rules.console import FIRST_PAGE, place_within
from domain.state import Service

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
            secret = await desk.sign_in_by_key(form.get("username", ""), form.get("password", ""), address)
        except ProblemError as refused:
            return _page(desk, told, wanted, refused, form.get("username", ""))
    answer = RedirectResponse(wanted, 303)
    give_cookie(answer, SESSION_COOKIE, secret, "/", state)
    return answer


@router.get("/sign-in/provider")
async def sign_in_elsewhere(request: Request, state: ServiceState, told: Told, wanted: Next = FIRST_PAGE) -> Response:
    """Send the browser to the provider, with what it must bring back. Nothing is written down here: anybody may ask."""
    if told is None:
        raise SignInRefused("No sign-in service is set up here.")
    address, pending = await told.begin(f"{str(state.settings.public_url).rstrip('/')}{CONSOLE}/signed-in")
    cookie = _pending_of(request).seal(replace(pending, wanted=place_within(wanted)))
    answer = RedirectResponse(address, 303)
    give_cookie(answer, PENDING_COOKIE, cookie, CONSOLE, state, PENDING_SECONDS)
    return answer


@router.get("/signed-in")
async def signed_in_elsewhere(request: Request, state: ServiceState, told: Told) -> Response:
    """The provider sent the browser back: sign in whom it vouches for. Well or not, that sign-in is over."""
    try:
        answer = await _finish_sign_in(request, state, told)
    except ProblemError as refused:
        answer = page("error.html", status=refused.status, title=refused.title, detail=refused.detail)
    answer.delete_cookie(PENDING_COOKIE, path=CONSOLE)
    return answer


async def _finish_sign_in(request: Request, state: Service, told: Provider | None) -> Response:
    pending = _pending_of(request).opened(request.cookies.get(PENDING_COOKIE, ""))
    if told is None or pending is None:
        raise SignInRefused("This browser has not begun to sign in, or too long ago. Begin again.")
    person = await told.finish(pending, dict(request.query_params))
    async with state.database.transaction() as session:
        made = await FrontDesk(session, state).sign_in_by_provider(person)
    answer = RedirectResponse(place_within(pending.wanted), 303)
    give_cookie(answer, SESSION_COOKIE, made, "/", state)
    return answer


def _pending_of(request: Request) -> PendingSignIns:
    made: PendingSignIns = request.app.state.pending
    return made


@router.post("/sign-out")
async def sign_out(request: Request, session: Session, desk: Desk, who: Reader, form: Form) -> Response:
    """End the session, for every copy of its cookie."""
    check_form(who, form)
    await desk.sign_out(request.cookies[SESSION_COOKIE], who.identity)
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
