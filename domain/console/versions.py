"""The page of one version: what it is, what it would replace, how it was made, and what was decided about it."""

import json
import logging
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.ext.asyncio import AsyncSession

from domain.api import assets as api
from domain.api.dependencies import ServiceState, Session
from domain.api.reviews import list_approvals
from domain.console.frame import frame
from domain.console.graph import run_graph
from domain.console.live import PageSubject
from domain.console.maps import footprint, links_of, map_of, outline
from domain.console.people import Person, Reader
from domain.console.rendering import page
from domain.console.reports import report_of
from domain.console.standing import ReviewStanding, standing_of
from domain.console.words import event, remark
from domain.contracts.assets import AssetView, RevisionView, VersionView
from domain.contracts.problems import ProblemError
from domain.errors import StorageUnavailable, Unstored
from domain.repositories.approvals import Approvals
from domain.repositories.console import ConsoleLists
from domain.repositories.layers import Layers
from domain.rules.scratch import refusal
from domain.services.operations.records import RecordDesk
from domain.services.reading import content
from domain.state import Service
from flows.storage.threads import in_storage_thread

log = logging.getLogger("cairn.console")
router = APIRouter()
MOST_FILES, MOST_STAGES, MOST_ENTRIES = 200, 200, 300
LARGEST_ITEM = 2_000_000
# What the API tells programs by naming headers, told to people.
SAID = {"changed-meanwhile": "It was changed since you loaded the page. This is how it is now: look, then decide."}
Ordinal = Annotated[int, Path(ge=0, le=999_999_999)]


@router.get("/versions/{asset_id}/{ordinal}")
async def version(
    request: Request, session: Session, state: ServiceState, who: Reader, asset_id: str, ordinal: Ordinal
) -> Response:
    """One version, with the revision that was made last."""
    return await version_page(request, session, state, who, asset_id, ordinal)


@router.get("/versions/{asset_id}/{ordinal}/footprint/{revision}")
async def read_footprint(
    session: Session, state: ServiceState, _who: Reader, asset_id: str, ordinal: Ordinal, revision: int
) -> Response:
    """Where a revision's data lies, as GeoJSON: its catalogue item's geometry, else its bounds."""
    item = await _read_item(session, state, asset_id, ordinal, revision)
    found = await api.list_revisions(asset_id, ordinal, session)
    outputs = next((each.outputs for each in found if each.revision == revision), None)
    return JSONResponse(footprint(item, outputs or {}), headers={"Cache-Control": "private, max-age=60"})


async def version_page(
    request: Request,
    session: AsyncSession,
    state: Service,
    who: Person,
    asset_id: str,
    ordinal: int,
    refused: ProblemError | None = None,
    opened: str = "",
    form: dict[str, str] | None = None,
) -> Response:
    """Render the page; after a refused decision it shows the refusal and what was typed."""
    around = await frame(request, session, who, "queue", PageSubject("version", asset_id, ordinal))
    asset = await api.read_asset(asset_id, session, Response())
    shown = await api.read_version(asset_id, ordinal, session, Response())
    revisions = await api.list_revisions(asset_id, ordinal, session)
    item = await _read_item(session, state, asset_id, ordinal, shown.newest.revision)
    return page(
        "version.html",
        status=refused.status if refused else 200,
        **around,
        **await _read_request(session, state, shown),
        asset=asset,
        version=shown,
        latest=await _read_latest(session, asset),
        map=map_of(asset, shown),
        report=report_of(shown.newest.outputs),
        revisions=revisions,
        standing=await _read_standing(session, asset, shown, revisions, who),
        words=await layer_words(session, asset_id),
        links=links_of(shown, item),
        files=(await api.list_artifacts(asset_id, ordinal, session, after=0, limit=MOST_FILES)).artifacts,
        provenance=outline(item),
        scratch=refusal(asset.asset_id, asset.platform_id),
        refused=SAID.get(refused.code, refused.detail) if refused else "",
        opened=opened,
        form=form or {},
    )


async def _read_request(session: AsyncSession, state: Service, shown: VersionView) -> dict[str, Any]:
    """Read the request that made the newest revision: its runs with their graphs, and its timeline."""
    desk = RecordDesk(session, state.definitions)
    request = await desk.request(shown.newest.request_id)
    runs = [await desk.run(run.run_id, 0, MOST_STAGES) for run in request.runs]
    told = await desk.timeline(request.request_id, MOST_ENTRIES, None)
    return {
        "request_record": request,
        "runs": [(run, run_graph(run.stages)) for run in runs],
        "timeline": [
            {"at": entry.at, "text": event(entry.kind, entry.facts), "remark": remark(entry.facts)}
            for entry in told.entries
        ],
        "timeline_goes_on": told.next is not None,
    }


async def _read_standing(
    session: AsyncSession, asset: AssetView, shown: VersionView, revisions: Sequence[RevisionView], who: Person
) -> ReviewStanding:
    given = await list_approvals(asset.asset_id, shown.ordinal, session)
    platform = await api.read_platform(asset.platform_id, session)
    return standing_of(given, shown, revisions, platform, who.identity.client_id, await Approvals(session).now())


async def layer_words(session: AsyncSession, asset_id: str) -> dict[str, Any]:
    """What people say about the asset's layer: as it is kept, and as the catalogue shows it."""
    layers = Layers(session)
    return {"kept": await layers.kept(asset_id), "published": await layers.published(asset_id)}


async def _read_latest(session: AsyncSession, asset: AssetView) -> VersionView | None:
    """Read the version that is served as latest."""
    if asset.latest_ordinal is None:
        return None
    return await api.read_version(asset.asset_id, asset.latest_ordinal, session, Response())


async def _read_item(
    session: AsyncSession, state: Service, asset_id: str, ordinal: int, revision: int
) -> dict[str, Any] | None:
    """Read the catalogue item of the revision; None where it cannot be read, since the page is useful without it."""
    name = await ConsoleLists(session).item_name(asset_id, ordinal, revision)
    if name is None:
        return None
    try:
        read = await in_storage_thread(content, state.zones.silver, name)
        item = json.loads(read) if len(read) <= LARGEST_ITEM else None
    except (StorageUnavailable, Unstored, ValueError) as error:
        log.warning("an item cannot be read", extra={"asset_id": asset_id, "error": type(error).__name__})
        return None
    return item if isinstance(item, dict) else None
