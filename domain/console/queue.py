"""The first page: versions by what is to be done about them."""

from collections.abc import Mapping, Sequence
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.ext.asyncio import AsyncSession

from domain.api.assets import list_platforms
from domain.api.dependencies import Session
from domain.console.frame import frame
from domain.console.live import PageSubject
from domain.console.people import Reader
from domain.console.rendering import page
from domain.console.standing import count
from domain.contracts.assets import PlatformView
from domain.contracts.reviews import ApprovalView
from domain.repositories.approvals import Approvals
from domain.repositories.console import ConsoleLists, QueueLine
from domain.rules.console import SHOWN, filter_of
from domain.rules.paging import to_token
from domain.rules.quorum import Tally
from domain.services.operations.callbacks import place_of

router = APIRouter()
PAGE = 50
Token = Annotated[str | None, Query(max_length=200)]


@router.get("/")
async def queue(request: Request, session: Session, who: Reader, after: Token = None) -> Response:
    """Versions that wait, work, failed or were decided; newest first."""
    around = await frame(request, session, who, "queue", PageSubject("queue"))
    wanted = filter_of(request.query_params)
    listed = await ConsoleLists(session).queue(wanted, place_of(after), PAGE)
    platforms = await list_platforms(session)
    return page(
        "queue.html",
        **around,
        rows=listed.rows,
        wanted=wanted,
        shown=SHOWN,
        platforms=platforms,
        tallies=await _tallies(session, listed.rows, {each.platform_id: each for each in platforms}),
        older=to_token(listed.next) if listed.next else None,
    )


async def _tallies(
    session: AsyncSession, rows: Sequence[QueueLine], platforms: Mapping[str, PlatformView]
) -> dict[UUID, Tally]:
    """Count the approvals of the listed revisions whose platform asks for more than one, by request."""
    approvals, tallies = Approvals(session), dict[UUID, Tally]()
    asked = [row for row in rows if platforms[row.asset.platform_id].approvals_required > 1]
    given, now = await approvals.given(*(row.revision for row in asked)), await approvals.now()
    for row in asked:
        platform, content = platforms[row.asset.platform_id], row.revision.content_hash
        place = (row.asset.asset_id, row.version.ordinal, row.revision.revision)
        own = [each for each in given if (each.asset_id, each.ordinal, each.revision) == place]
        views = [ApprovalView.model_validate(each) for each in own]
        tallies[row.revision.request_id] = count(views, content, platform, now)
    return tallies
