"""The first page: versions by what is to be done about them."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from domain.api.dependencies import Session
from domain.console.frame import frame
from domain.console.live import Subject
from domain.console.people import Reader
from domain.console.rendering import page
from domain.repositories.asset_lists import AssetLists
from domain.repositories.console import ConsoleLists
from domain.rules.console import SHOWN, filter_of
from domain.rules.paging import Place, to_token
from domain.services.callbacks import place_of

router = APIRouter()
PAGE = 50
Token = Annotated[str | None, Query(max_length=200)]


@router.get("/")
async def queue(request: Request, session: Session, who: Reader, after: Token = None) -> Response:
    """Versions that wait, work, failed or were decided; newest first."""
    around = await frame(request, session, who, "queue", Subject("queue"))
    wanted = filter_of(request.query_params)
    rows = await ConsoleLists(session).queue(wanted, place_of(after), PAGE)
    last = rows[-1].revision if len(rows) == PAGE else None
    return page(
        "queue.html",
        **around,
        rows=rows,
        wanted=wanted,
        shown=SHOWN,
        platforms=await AssetLists(session).platforms(),
        older=to_token(Place(last.created_at, last.request_id)) if last else None,
    )
