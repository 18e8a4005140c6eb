"""Assets, the history of one, and the registers of platforms and clients."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from domain.api import assets as api
from domain.api.dependencies import ServiceState, Session
from domain.console.frame import frame
from domain.console.live import PageSubject
from domain.console.people import Reader
from domain.console.rendering import page
from domain.console.versions import layer_words
from domain.repositories.asset_lists import AssetLists
from domain.repositories.audit import Audit
from domain.services.operations.clients import ClientDesk

router = APIRouter()
PAGE = 50
MOST_VERSIONS, MOST_ACTS = 200, 100


@router.get("/assets")
async def assets(
    request: Request,
    session: Session,
    who: Reader,
    platform: Annotated[str, Query(max_length=63)] = "",
    after: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Every asset of every platform."""
    around = await frame(request, session, who, "assets", PageSubject("queue"))
    found = await api.list_assets(session, platform_id=platform or None, after=after, limit=PAGE)
    platforms = await AssetLists(session).platforms()
    return page("assets.html", **around, found=found, platforms=platforms, platform=platform)


@router.get("/assets/{asset_id}")
async def asset(request: Request, session: Session, who: Reader, asset_id: str) -> Response:
    """One asset: who may read it, its versions, and what was decided about it."""
    around = await frame(request, session, who, "assets", PageSubject("asset", asset_id))
    return page(
        "asset.html",
        **around,
        asset=await api.read_asset(asset_id, session, Response()),
        versions=(await api.list_versions(session, asset_id=asset_id, deleted=True, limit=MOST_VERSIONS)).versions,
        words=await layer_words(session, asset_id),
        acts=await Audit(session).entries(0, MOST_ACTS, subject=f"asset/{asset_id}"),
    )


@router.get("/platforms")
async def platforms(request: Request, session: Session, state: ServiceState, who: Reader) -> Response:
    """Partner systems, and for operators every credential without its key."""
    around = await frame(request, session, who, "platforms", PageSubject("audit"))
    clients = await ClientDesk(session, state.settings.key_overlap_seconds).listed() if who.may_operate else []
    return page("platforms.html", **around, platforms=await api.list_platforms(session), clients=clients)
