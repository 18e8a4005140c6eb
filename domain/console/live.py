"""Tells open pages that what they show has changed. A page is sent a mark, never content: it asks for that itself."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse

from domain.api.dependencies import ServiceState
from domain.console.people import NotSignedIn, person_of
from domain.contracts.problems import ProblemError
from domain.errors import NotFound
from domain.repositories.console import MARKS, ConsoleLists
from domain.state import Service

LOOK_SECONDS = 1.0
BREATH_LOOKS = 10  # a comment now and then: proxies end what is silent, and we learn that nobody listens any more
LONGEST_LOOKS = 600  # then the browser asks again, as whoever is signed in by then
MOST_STREAMS = 200
LONGEST_ORDINAL = 9
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class TooManyPages(ProblemError):
    code, status, title = "too-many-pages", 503, "Too many pages are open"


@dataclass
class Pages:
    """The open streams of this process. `close` ends them, so that a stopping server does not wait for pages."""

    open: int = 0
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    def close(self) -> None:
        self.closing.set()


@dataclass(frozen=True)
class PageSubject:
    """What a page is about."""

    page: str
    asset_id: str = ""
    ordinal: int = 0


async def subject(request: Request) -> PageSubject:
    """What the address names: a page, one of an asset, or one of a version."""
    named = request.path_params
    ordinal = named.get("ordinal", "0")
    if named["page"] not in MARKS or not ordinal.isdecimal() or len(ordinal) > LONGEST_ORDINAL:
        raise NotFound("There is no such page.")
    return PageSubject(named["page"], named.get("asset_id", ""), int(ordinal))


router = APIRouter()


@router.get("/live/{page}")
@router.get("/live/{page}/{asset_id}")
@router.get("/live/{page}/{asset_id}/{ordinal}")
async def live(
    request: Request, state: ServiceState, about: Annotated[PageSubject, Depends(subject)]
) -> StreamingResponse:
    """Server-sent events: the mark of the page's content, each time it is another one."""
    pages: Pages = request.app.state.pages
    if await _read_mark(request, state, about) is None:
        raise NotSignedIn
    if pages.open >= MOST_STREAMS:
        raise TooManyPages("Close some, or wait.")
    return StreamingResponse(
        _event_stream(request, state, about, pages), media_type="text/event-stream", headers=HEADERS
    )


async def _event_stream(request: Request, state: Service, about: PageSubject, pages: Pages) -> AsyncIterator[str]:
    told, pages.open = None, pages.open + 1
    try:
        yield "retry: 2000\n\n"
        for count in range(LONGEST_LOOKS):
            mark = await _read_mark(request, state, about)
            if mark is None:  # signed out, here or elsewhere
                yield "event: gone\ndata: \n\n"
                return
            if mark != told:
                told = mark
                yield f"data: {mark}\n\n"
            elif count % BREATH_LOOKS == 0:
                yield ": still here\n\n"
            if await _is_closing(pages):
                return
    finally:
        pages.open -= 1


async def _read_mark(request: Request, state: Service, about: PageSubject) -> str | None:
    """Return the page's mark, or None where nobody is signed in."""
    async with state.database.transaction() as session:
        if await person_of(request, session) is None:
            return None
        return await ConsoleLists(session).mark(about.page, about.asset_id, about.ordinal)


async def _is_closing(pages: Pages) -> bool:
    try:
        await asyncio.wait_for(pages.closing.wait(), LOOK_SECONDS)
    except TimeoutError:
        return False
    return True
