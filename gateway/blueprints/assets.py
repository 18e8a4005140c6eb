"""Assets and versions: partners see their own, staff all; who may decide changes them, judged by the domain."""

from typing import Annotated, Literal

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Response

from domain.contracts.assets import AssetView, ChangeClearance
from domain.contracts.reviews import ClearanceLevel
from domain.rules.clearance import Identity
from domain.rules.identity import parsed_refs
from domain.rules.locking import etag
from gateway import answers
from gateway.auth import Reader, Secret
from gateway.errors import InvalidQuery, NotFound
from gateway.reads.queries import AssetRow, reader_of
from gateway.state import Gateway, gateway

router = APIRouter(prefix="/api/assets", tags=["assets"])
State = Annotated[Gateway, Depends(gateway)]
AssetId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]
Ordinal = Annotated[int, Path(ge=0, le=2**31 - 2)]
Limit = Annotated[int, Query(ge=1, le=500)]
IfMatch = Annotated[str | None, Header(max_length=200, description="The ETag of what was read, or * for any state")]
Reason = Annotated[str, Query(min_length=3, max_length=2000)]


@router.get("")
async def list_assets(
    caller: Reader,
    state: State,
    ref: Annotated[
        list[str] | None, Query(max_length=20, description="name=value; all that are given must match")
    ] = None,
    clearance: ClearanceLevel | None = None,
    data_type: Literal["raster", "vector"] | None = None,
    after: Annotated[str, Query(pattern=r"^([0-9a-f]{32})?$")] = "",
    limit: Limit = 100,
) -> answers.AssetList:
    """Assets by reference, clearance and kind."""
    rows, following = await state.queries.assets(reader_of(caller), _refs(ref), clearance, data_type, after, limit)
    return answers.AssetList(assets=[answers.asset(row) for row in rows], next_after=following)


@router.get("/{asset_id}")
async def read_asset(asset_id: AssetId, caller: Reader, state: State, response: Response) -> answers.AssetAnswer:
    """One asset."""
    row = await _readable(asset_id, caller, state)
    response.headers["ETag"] = etag(row.lock_version)
    return answers.asset(row)


@router.get("/{asset_id}/versions")
async def list_versions(
    asset_id: AssetId,
    caller: Reader,
    state: State,
    after: Annotated[int, Query(ge=-1, le=2**31 - 2)] = -1,
    limit: Limit = 100,
) -> answers.VersionList:
    """An asset's versions, oldest first."""
    await _readable(asset_id, caller, state)
    rows = await state.queries.versions(reader_of(caller), asset_id, after, limit)
    following = rows[-1].ordinal if len(rows) == limit else None
    return answers.VersionList(versions=[answers.version(row) for row in rows], next_after=following)


@router.get("/{asset_id}/versions/{ordinal}")
async def read_version(
    asset_id: AssetId, ordinal: Ordinal, caller: Reader, state: State, response: Response
) -> answers.VersionAnswer:
    """One version with its newest revision."""
    rows = await state.queries.versions(reader_of(caller), asset_id, ordinal - 1, 1)
    if not rows or rows[0].ordinal != ordinal:
        raise NotFound(f"Asset {asset_id} has no version {ordinal}.")
    response.headers["ETag"] = etag(rows[0].lock_version)
    return answers.version(rows[0])


@router.post("/{asset_id}/clearance")
async def change_clearance(
    asset_id: AssetId,
    change: Annotated[ChangeClearance, Body(examples=[{"clearance_level": "ouo", "reason": "Not for everybody"}])],
    caller: Reader,
    secret: Secret,
    state: State,
    response: Response,
    if_match: IfMatch = None,
) -> answers.AssetAnswer:
    """Raise or lower who may read what is approved of an asset."""
    await _readable(asset_id, caller, state)
    changed = await state.domain.change_clearance(asset_id, change, if_match, secret)
    response.headers["ETag"] = etag(changed.lock_version)
    return _shown(changed)


@router.delete("/{asset_id}", status_code=204)
async def delete_asset(
    asset_id: AssetId, reason: Reason, caller: Reader, secret: Secret, state: State, if_match: IfMatch = None
) -> None:
    """Delete an asset none of whose versions is served."""
    await _readable(asset_id, caller, state)
    await state.domain.delete_asset(asset_id, reason, if_match, secret)


@router.delete("/{asset_id}/versions/{ordinal}", status_code=204)
async def delete_version(
    asset_id: AssetId,
    ordinal: Ordinal,
    reason: Reason,
    caller: Reader,
    secret: Secret,
    state: State,
    if_match: IfMatch = None,
) -> None:
    """Delete a version that is not served. The next version no longer waits for it."""
    await _readable(asset_id, caller, state)
    await state.domain.delete_version(asset_id, ordinal, reason, if_match, secret)


async def _readable(asset_id: str, caller: Identity, state: Gateway) -> AssetRow:
    """Return the asset, or answer 404 where the caller may not know of it."""
    row = await state.queries.asset(reader_of(caller), asset_id)
    if row is None:
        raise NotFound(f"There is no asset {asset_id}.")
    return row


def _shown(changed: AssetView) -> answers.AssetAnswer:
    facts = changed.model_dump()
    return answers.AssetAnswer.model_validate(facts | {"latest_version": changed.latest_ordinal})


def _refs(given: list[str] | None) -> dict[str, str]:
    try:
        return parsed_refs(given or [])
    except ValueError as fault:
        raise InvalidQuery(str(fault)) from None
