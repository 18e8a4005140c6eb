"""Assets, versions and platforms: lists for staff, changes for reviewers."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from domain.api.dependencies import Session, allowed, asset_changes, decider, deleter, scratch_desk
from domain.contracts.assets import (
    Approval,
    ArtifactPage,
    ArtifactView,
    AssetPage,
    AssetView,
    ChangeClearance,
    ChangeExposure,
    PlatformView,
    RevisionView,
    VersionPage,
    VersionView,
)
from domain.contracts.commands import LayerWords
from domain.contracts.reviews import ClearanceLevel
from domain.contracts.submissions import RequestState
from domain.errors import InvalidSubmission, NotFound
from domain.models import AssetVersion, Revision
from domain.repositories.asset_lists import AssetLists
from domain.repositories.layers import Layers
from domain.rules.clearance import REVIEWERS
from domain.rules.identity import parsed_refs
from domain.rules.locking import etag
from domain.security import STAFF, Identity
from domain.services.operations.discarding import ScratchDesk
from domain.services.publication.assets import AssetChanges

router = APIRouter(prefix="/api/v1")
STAFF_ONLY = [Depends(allowed(*STAFF))]
Decider = Annotated[Identity, Depends(decider)]
Deleter = Annotated[Identity, Depends(deleter)]
Reviewer = Annotated[Identity, Depends(allowed(*sorted(REVIEWERS)))]
Changes = Annotated[AssetChanges, Depends(asset_changes)]
Scratch = Annotated[ScratchDesk, Depends(scratch_desk)]
Reason = Annotated[str, Query(min_length=3, max_length=2000)]
Limit = Annotated[int, Query(ge=1, le=500)]


@router.get("/platforms", tags=["operators"], dependencies=STAFF_ONLY)
async def list_platforms(session: Session) -> list[PlatformView]:
    """Every partner system."""
    return [PlatformView.model_validate(row) for row in await AssetLists(session).platforms()]


@router.get("/platforms/{platform_id}", tags=["operators"], dependencies=STAFF_ONLY)
async def read_platform(platform_id: str, session: Session) -> PlatformView:
    """One partner system: its references, its field mapping, and what its approvals take."""
    row = await AssetLists(session).platform(platform_id)
    if row is None:
        raise NotFound(f"There is no platform {platform_id!r}.")
    return PlatformView.model_validate(row)


@router.get("/assets", tags=["reviewers"], dependencies=STAFF_ONLY)
async def list_assets(
    session: Session,
    platform_id: str | None = None,
    ref: Annotated[list[str] | None, Query(description="name=value; every one given must match")] = None,
    clearance: ClearanceLevel | None = None,
    deleted: bool = False,
    after: str = "",
    limit: Limit = 100,
) -> AssetPage:
    """Assets by platform, references and clearance."""
    lists = AssetLists(session)
    listed = await lists.assets(
        platform_id=platform_id, refs=_refs(ref), clearance=clearance, deleted=deleted, after=after, limit=limit
    )
    found = [AssetView.model_validate(row).model_copy(update={"latest_ordinal": latest}) for row, latest in listed.rows]
    return AssetPage(assets=found, next_after=listed.next)


@router.get("/assets/{asset_id}", tags=["reviewers"], dependencies=STAFF_ONLY)
async def read_asset(asset_id: str, session: Session, response: Response) -> AssetView:
    """One asset. Its ETag is what a change of it has to name."""
    rows = await AssetLists(session).one(asset_id)
    if rows is None:
        raise NotFound(f"There is no asset {asset_id}.")
    asset, latest = rows
    response.headers["ETag"] = etag(asset.lock_version)
    return AssetView.model_validate(asset).model_copy(update={"latest_ordinal": latest})


@router.get("/versions", tags=["reviewers"], dependencies=STAFF_ONLY)
async def list_versions(
    session: Session,
    asset_id: str | None = None,
    approval: Approval | None = None,
    processing: RequestState | None = None,
    deleted: bool = False,
    after: Annotated[str, Query(pattern=r"^([0-9a-f]{32}/\d{1,9})?$")] = "",
    limit: Limit = 100,
) -> VersionPage:
    """Versions of all assets: with approval=pending_review and processing=completed, the reviewers' queue."""
    asset, _, ordinal = after.partition("/")
    listed = await AssetLists(session).versions(
        asset_id=asset_id,
        approval=approval,
        processing=processing,
        deleted=deleted,
        after=(asset, int(ordinal or -1)),
        limit=limit,
    )
    last = None if listed.next is None else f"{listed.next[0]}/{listed.next[1]}"
    return VersionPage(versions=_views(listed.rows), next_after=last)


@router.get("/assets/{asset_id}/versions/{ordinal}", tags=["reviewers"], dependencies=STAFF_ONLY)
async def read_version(asset_id: str, ordinal: int, session: Session, response: Response) -> VersionView:
    """One version. Its ETag is what a change of it has to name."""
    lists = AssetLists(session)
    rows = (await lists.versions(asset_id=asset_id, deleted=True, after=(asset_id, ordinal - 1), limit=1)).rows
    if not rows or rows[0][0].ordinal != ordinal:
        raise NotFound(f"Asset {asset_id} has no version {ordinal}.")
    response.headers["ETag"] = etag(rows[0][0].lock_version)
    return _views(rows)[0]


@router.get("/assets/{asset_id}/versions/{ordinal}/revisions", tags=["reviewers"], dependencies=STAFF_ONLY)
async def list_revisions(asset_id: str, ordinal: int, session: Session) -> list[RevisionView]:
    """What each processing of the version produced, and what was decided about it."""
    return [RevisionView.model_validate(row) for row in await AssetLists(session).revisions(asset_id, ordinal)]


@router.get("/assets/{asset_id}/versions/{ordinal}/artifacts", tags=["reviewers"], dependencies=STAFF_ONLY)
async def list_artifacts(
    asset_id: str, ordinal: int, session: Session, after: Annotated[int, Query(ge=0)] = 0, limit: Limit = 100
) -> ArtifactPage:
    """The files of the version's revisions, and where they have copies outside."""
    rows = await AssetLists(session).artifacts(asset_id, ordinal, after, limit)
    last = rows[-1].artifact_id if len(rows) == limit else None
    return ArtifactPage(artifacts=[ArtifactView.model_validate(row) for row in rows], next_after=last)


@router.post("/assets/{asset_id}/clearance", tags=["reviewers"])
async def change_clearance(
    asset_id: str, change: ChangeClearance, use_case: Changes, reviewer: Decider, response: Response
) -> AssetView:
    """Raise or lower who may read what is approved of this asset."""
    changed = await use_case.clearance(asset_id, change, reviewer)
    response.headers["ETag"] = etag(changed.lock_version)
    return changed


@router.get("/assets/{asset_id}/metadata", tags=["reviewers"], dependencies=STAFF_ONLY)
async def read_metadata(asset_id: str, session: Session, response: Response) -> LayerWords:
    """The words about the asset's layer, as last edited. Their ETag is the asset's."""
    rows, kept = await AssetLists(session).one(asset_id), await Layers(session).kept(asset_id)
    if rows is None or kept is None:
        raise NotFound(f"There is no metadata of asset {asset_id}.")
    response.headers["ETag"] = etag(rows[0].lock_version)
    return LayerWords.model_validate(kept)


@router.put("/assets/{asset_id}/metadata", tags=["reviewers"])
async def keep_metadata(asset_id: str, words: LayerWords, use_case: Changes, reviewer: Reviewer) -> LayerWords:
    """Keep words about the asset's layer. They are shown with its first approval, or by `metadata.publish`."""
    return await use_case.words(asset_id, words, reviewer)


@router.post("/assets/{asset_id}/exposure", tags=["reviewers"])
async def change_exposure(
    asset_id: str, change: ChangeExposure, use_case: Changes, reviewer: Reviewer, response: Response
) -> AssetView:
    """Offer the latest approved version only, or all of them."""
    changed = await use_case.exposure(asset_id, change, reviewer)
    response.headers["ETag"] = etag(changed.lock_version)
    return changed


@router.delete("/assets/{asset_id}", status_code=204, tags=["reviewers"])
async def delete_asset(asset_id: str, reason: Reason, scratch: Scratch, use_case: Changes, who: Deleter) -> None:
    """Delete an asset none of whose versions is served; of an operator's own run, with its files."""
    if await scratch.holds(asset_id):
        await scratch.discard(asset_id, reason, who)
    else:
        await use_case.delete_asset(asset_id, reason, who)


@router.delete("/assets/{asset_id}/versions/{ordinal}", status_code=204, tags=["reviewers"])
async def delete_version(asset_id: str, ordinal: int, reason: Reason, use_case: Changes, reviewer: Decider) -> None:
    """Delete a version that is not served. The next version no longer waits for it."""
    await use_case.delete_version(asset_id, ordinal, reason, reviewer)


def _views(rows: Sequence[tuple[AssetVersion, Revision]]) -> list[VersionView]:
    return [
        VersionView.model_validate({**_columns(version), "newest": RevisionView.model_validate(revision)})
        for version, revision in rows
    ]


def _columns(version: AssetVersion) -> dict[str, object]:
    return {name: getattr(version, name) for name in VersionView.model_fields if name != "newest"}


def _refs(given: list[str] | None) -> dict[str, str]:
    try:
        return parsed_refs(given or [])
    except ValueError as fault:
        raise InvalidSubmission(str(fault)) from None
