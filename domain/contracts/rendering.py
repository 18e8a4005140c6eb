"""The one renderer of problem documents, for every FastAPI application of ours.

The only contract that knows FastAPI: it is imported by applications, never by rooms that have none.
"""

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from domain.contracts.problems import Problem, ProblemError

log = logging.getLogger("cairn.api")
MEDIA_TYPE = "application/problem+json"
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


def render(problem: Problem) -> JSONResponse:
    body = problem.body()
    wait = body.get("retry_after_seconds")
    headers = {"Cache-Control": "no-store"} | ({} if wait is None else {"Retry-After": str(wait)})
    if problem.status == HTTPStatus.METHOD_NOT_ALLOWED and (methods := body.get("allowed_methods")):
        headers["Allow"] = ", ".join(methods)
    return JSONResponse(body, status_code=problem.status, media_type=MEDIA_TYPE, headers=headers)


async def _problem_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)  # noqa: S101 - registered for this class only
    return render(error.problem())


async def _validation_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class only
    faults = [
        f"{'.'.join(str(part) for part in fault['loc'][1:]) or 'body'}: {fault['msg']}" for fault in error.errors()
    ]
    detail = "; ".join(faults)
    return render(
        Problem(title="The request is malformed", status=422, code="malformed-request", detail=detail, faults=faults)
    )


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class only
    code = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "http-error")
    problem = Problem(title=str(error.detail), status=error.status_code, code=code, detail=str(error.detail))
    answer = render(problem)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        answer.headers["Allow"] = ", ".join(allowed_methods(request))
    return answer


def allowed_methods(request: Request) -> list[str]:
    """Return all methods of this address; the refusing route knows only its own."""
    scope = {
        name: value for name, value in request.scope.items() if name != "fastapi"
    }  # marks of the route that refused
    routes: list[BaseRoute] = request.app.router.routes
    known = [name for name in METHODS for route in routes if route.matches({**scope, "method": name})[0] is Match.FULL]
    return sorted({*known})


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("unexpected error", exc_info=error, extra={"path": request.url.path})
    return render(
        Problem(title="Internal error", status=500, code="internal-error", detail="This is our fault; it was logged.")
    )


def install(app: FastAPI) -> None:
    """Have the application answer every error as a problem document."""
    handlers: dict[Any, Any] = {
        ProblemError: _problem_error,
        RequestValidationError: _validation_error,
        HTTPException: _http_error,
        Exception: _unexpected,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
