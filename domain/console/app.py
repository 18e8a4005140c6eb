"""The console's application, mounted below /console: pages for people, errors as pages, one set of headers for all."""

import logging
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionFree
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.console import assets, audit, callbacks, decisions, live, queue, sign_in, versions, work
from domain.console.oidc import Provider
from domain.console.pending import PendingSignIns
from domain.console.people import CONSOLE, NotSignedIn
from domain.console.rendering import HEADERS, STATIC, page, unbuilt
from domain.contracts.problems import ProblemError
from domain.rules.console import FIRST_PAGE, HARMLESS, refusal
from domain.settings import DomainSettings

log = logging.getLogger("cairn.console")
TO_BUILD = (
    "Pages need them. Run `make setup`, or `npm ci && node build.mjs` in domain/console/web, and load this page again. "
    "Images have them from their build."
)
A_YEAR = "public, max-age=31536000, immutable"


def create_console(config: DomainSettings) -> FastAPI:
    """The application. What it works with is given to it when the service starts."""
    app = FastAPI(title="Cairn console", docs_url=None, redoc_url=None, openapi_url=None)
    if missing := unbuilt():
        log.warning("the console's scripts are not built", extra={"missing": missing})
    app.state.pages = live.Pages()
    app.state.provider = _provider(config)
    app.state.pending = PendingSignIns([key.get_secret_value() for key in config.secrets_keys])
    handlers: dict[Any, Any] = {
        NotSignedIn: _redirect_to_sign_in,
        ProblemError: _render_refusal,
        RequestValidationError: _render_no_such_page,
        HTTPException: _render_http_error,
        OperationalError: _render_database_unavailable,
        InterfaceError: _render_database_unavailable,
        NoConnectionFree: _render_database_unavailable,
        Exception: _render_unexpected,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
    for part in (sign_in, queue, versions, decisions, assets, audit, callbacks, work, live):
        app.include_router(part.router)
    app.mount("/static", StaticFiles(directory=STATIC, check_dir=False))
    return app


def _provider(config: DomainSettings) -> Provider | None:
    if config.oidc_issuer is None or config.oidc_client_id is None:
        return None
    secret = config.oidc_client_secret
    return Provider(
        config.oidc_issuer,
        config.oidc_client_id,
        secret.get_secret_value() if secret else None,
        config.oidc_scope,
        config.development,
    )


class Guard:
    """Refuses what other sites send, and gives every answer the headers of a page that runs only our own code."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        answered = False

        async def send_guarded(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if "/static/" in scope["path"] and message["status"] == 200 and scope["query_string"]:
                    headers["Cache-Control"] = A_YEAR
            await send(message)

        if why := refusal(scope["method"], Headers(scope=scope)):
            await error_page(403, "This was not sent from the console", why)(scope, receive, send_guarded)
            return
        if unbuilt() and "/static/" not in scope["path"]:
            await error_page(503, "The console's scripts are not built", TO_BUILD)(scope, receive, send_guarded)
            return
        try:
            await self._app(scope, receive, send_guarded)
        except Exception:
            if not answered:  # what was logged and answered is raised again all the same
                raise


def error_page(status: int, title: str, detail: str) -> HTMLResponse:
    return page("error.html", status=status, title=title, detail=detail)


async def _redirect_to_sign_in(request: Request, _error: Exception) -> Response:
    """Send the browser to the sign-in; a page that was only read is returned to afterwards."""
    if request.headers.get("hx-request"):
        return Response(status_code=401, headers={"HX-Redirect": f"{CONSOLE}/sign-in"})
    if "/live/" in request.url.path:
        return Response(status_code=401)
    back = FIRST_PAGE
    if request.method in HARMLESS:
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"{CONSOLE}/sign-in?{urlencode({'next': back})}", 303)


async def _render_refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)  # noqa: S101 - registered for this class only
    return error_page(error.status, error.title, error.detail)


async def _render_no_such_page(_request: Request, _error: Exception) -> Response:
    return error_page(404, "There is no such page", "The address names nothing that the console can show.")


async def _render_http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class only
    if error.status_code == 405:
        return error_page(405, "This is not done that way", "Decisions are sent by the forms of their page.")
    return error_page(
        error.status_code, "There is no such page", "The address names nothing that the console can show."
    )


async def _render_database_unavailable(request: Request, error: Exception) -> Response:
    log.warning("no database for a page", extra={"path": request.url.path, "error": type(error).__name__})
    return error_page(503, "Our database does not answer", "Nothing is lost. Load the page again in a moment.")


async def _render_unexpected(request: Request, error: Exception) -> Response:
    log.error("unexpected error", exc_info=error, extra={"path": request.url.path})
    return error_page(500, "Internal error", "This is our fault; it was logged.")
