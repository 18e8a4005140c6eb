"""Problem documents (RFC 9457) of the serving room. Their texts are ours: a library's message may name a path."""

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import psycopg
from asyncpg.exceptions import PostgresError
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from rasterio.errors import RasterBlockError, RasterioIOError, WarpOperationError
from rio_tiler.errors import PointOutsideBounds, RioTilerError, TileOutsideBounds
from stac_fastapi.types.errors import DatabaseError, InvalidQueryParameter, NotFoundError
from starlette.exceptions import HTTPException
from tipg.errors import NotFound, TiPgError

from domain.contracts.rendering import allowed_methods
from flows.handlers.errors import InvalidInput, Transient
from gateway.serving.freshness import NotModified

_log = logging.getLogger("cairn.serving")
DATABASE_ERRORS: Final = (psycopg.Error, PostgresError, DatabaseError)
_UNANSWERED: Final = (psycopg.OperationalError, TimeoutError, OSError)  # of a library that counts by itself, too
# Classes of SQLSTATE. The database is away, stops, or has no room or time left for this:
_AWAY: Final = frozenset({"08", "40", "53", "55", "57", "58"})
# The catalogue's functions refuse what a reader made up: a value, an operator, what they check by themselves.
_OF_READERS: Final = frozenset({"22", "42", "P0"})
# Rights and tables, which no reader can name.
_OURS: Final = frozenset({psycopg.errors.InsufficientPrivilege.sqlstate, psycopg.errors.UndefinedTable.sqlstate})


class ReaderProblem(Exception):
    """What a reader is told instead of an answer."""

    def __init__(self, status: HTTPStatus, code: str, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers = status, code, detail, headers


# One text for what is not there and for what this reader may not know of.
NOT_FOUND = ReaderProblem(HTTPStatus.NOT_FOUND, "not-found", "There is nothing here that you may read.")
UNKNOWN_CREDENTIAL = ReaderProblem(
    HTTPStatus.UNAUTHORIZED,
    "unknown-credential",
    "The token or API key is not known or no longer active.",
    {"WWW-Authenticate": "Bearer"},
)
LINK_ENDED = ReaderProblem(
    HTTPStatus.FORBIDDEN, "link-not-good", "This link has ended or was changed. Ask for a new one, with a credential."
)
INTERNAL = ReaderProblem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "The request could not be served.")
NOT_READY = ReaderProblem(HTTPStatus.SERVICE_UNAVAILABLE, "not-ready", "The database does not answer, or not in time.")
STORAGE_AWAY = ReaderProblem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "storage-unavailable",
    "The storage does not give what is asked for, or not in time. Ask again.",
    {"Retry-After": "5"},
)
BUSY = ReaderProblem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "busy",
    "Others read as much as there is memory for. Ask again.",
    {"Retry-After": "5"},
)
TOO_SLOW = ReaderProblem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    BUSY.code,
    "Drawing this took too long beside what others read. Ask again, or for fewer bands or pixels.",
    BUSY.headers,
)
CANNOT_SEARCH = ReaderProblem(HTTPStatus.BAD_REQUEST, "cannot-search", "The catalogue cannot answer this search.")
OUTSIDE = ReaderProblem(HTTPStatus.NOT_FOUND, "outside-bounds", "The product does not cover this place.")


def invalid(detail: str) -> ReaderProblem:
    """Return the problem of a parameter that no library may see."""
    return ReaderProblem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-parameters", detail)


def cannot_draw(detail: str) -> ReaderProblem:
    """Return the problem of a picture that cannot be drawn from this raster."""
    return ReaderProblem(HTTPStatus.UNPROCESSABLE_ENTITY, "cannot-render", detail)


def too_large(detail: str) -> ReaderProblem:
    """Return the problem of more pixels than one request may have."""
    return ReaderProblem(HTTPStatus.UNPROCESSABLE_ENTITY, "too-large", detail)


def response(problem: ReaderProblem) -> JSONResponse:
    body = {
        "type": f"urn:cairn:problem:{problem.code}",
        "title": problem.status.phrase,
        "status": int(problem.status),
        "code": problem.code,
        "detail": problem.detail,
    }
    return JSONResponse(body, problem.status, problem.headers, media_type="application/problem+json")


def install(app: FastAPI) -> None:
    """Answer every failure of the app with a problem document."""
    app.add_exception_handler(Exception, _unexpected)
    app.add_exception_handler(NotModified, _not_modified)
    translations: dict[type[Exception], Callable[[Exception], ReaderProblem]] = {
        ReaderProblem: _itself,
        TileOutsideBounds: lambda error: OUTSIDE,
        PointOutsideBounds: lambda error: OUTSIDE,
        **dict.fromkeys((RasterioIOError, RasterBlockError, WarpOperationError, Transient, InvalidInput), _of_storage),
        RioTilerError: lambda error: ReaderProblem(
            HTTPStatus.UNPROCESSABLE_ENTITY, "cannot-render", "The product cannot be rendered with these parameters."
        ),
        RequestValidationError: _of_parameters,
        TiPgError: _of_layer,
        NotFoundError: lambda error: NOT_FOUND,
        InvalidQueryParameter: lambda error: CANNOT_SEARCH,
        **dict.fromkeys(DATABASE_ERRORS, of_database),
        PostgresError: _of_catalogue,
        TimeoutError: of_database,
    }
    app.add_exception_handler(HTTPException, _refused)
    for kind, translate in translations.items():
        app.add_exception_handler(kind, _handler(translate))


def _handler(translate: Callable[[Exception], ReaderProblem]) -> Callable[[Request, Exception], JSONResponse]:
    return lambda request, error: response(translate(error))


def _itself(error: Exception) -> ReaderProblem:
    return error if isinstance(error, ReaderProblem) else INTERNAL


def _of_storage(error: Exception) -> ReaderProblem:
    """Return the problem of a file that cannot be read now, or is gone.

    The libraries' words name the file, in an account with its signature: none is logged.
    """
    _log.warning("the storage could not be read", extra={"kind": type(error).__name__})
    return STORAGE_AWAY


def _of_parameters(error: Exception) -> ReaderProblem:
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    names = ", ".join(sorted({str(fault["loc"][-1]) for fault in faults}))
    return ReaderProblem(
        HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-parameters", f"These parameters are not valid: {names}."
    )


def _of_layer(error: Exception) -> ReaderProblem:
    """Return the problem of what tipg does not find or cannot compute."""
    if isinstance(error, NotFound):
        return NOT_FOUND
    return invalid("The layer cannot answer this: a property, limit or place in the question is not one of its own.")


def of_database(error: Exception) -> ReaderProblem:
    """Return the problem of a database failure: an outage passes, any other failure is our fault."""
    state = getattr(error, "sqlstate", None)
    facts = {"kind": type(error).__name__, "sqlstate": state}
    if _is_away(error, state):
        _log.warning("the database could not be asked", extra=facts)
        return NOT_READY
    _log.error("the database refused what serving asked", extra=facts, exc_info=error)
    return INTERNAL


def _is_away(error: Exception, state: str | None) -> bool:
    """Whether the failure is an outage; a failed connection has no SQLSTATE."""
    return isinstance(error, _UNANSWERED) if state is None else state[:2] in _AWAY


def _of_catalogue(error: Exception) -> ReaderProblem:
    """Return the problem of a search that pgSTAC refuses to compute."""
    state = str(getattr(error, "sqlstate", ""))
    return CANNOT_SEARCH if state[:2] in _OF_READERS and state not in _OURS else of_database(error)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    """Answer what the framework refuses itself: unknown routes and methods. `HEAD` is allowed wherever `GET` is."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class only
    status, headers = HTTPStatus(error.status_code), None
    if status == HTTPStatus.NOT_FOUND:
        return response(NOT_FOUND)
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        methods = set(allowed_methods(request))
        headers = {"Allow": ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))}
    return response(ReaderProblem(status, status.phrase.lower().replace(" ", "-"), f"{status.phrase}.", headers))


async def _not_modified(request: Request, error: Exception) -> Response:
    """Answer 304: the reader's copy is still right, and they may still have it."""
    return Response(status_code=HTTPStatus.NOT_MODIFIED)


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    """Answer 500; the framework then raises the error again, so that the server logs it."""
    return response(INTERNAL)
