"""Finds what a caller named, or refuses in the same words wherever it was looked for."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from domain.errors import NotFound, ScratchAsset
from domain.models import Asset, Request, Run
from domain.repositories.assets import Assets
from domain.repositories.requests import Requests
from domain.repositories.runs import Runs
from domain.rules.scratch import refusal


async def found_request(session: AsyncSession, request_id: UUID, *, lock: bool = False) -> Request:
    request = await Requests(session).get(request_id, lock=lock)
    if request is None:
        raise no_request(request_id)
    return request


def no_request(request_id: UUID) -> NotFound:
    """Return the refusal of a request that does not exist or that this caller may not know of."""
    return NotFound(f"There is no request {request_id}.")


async def found_run(session: AsyncSession, run_id: UUID) -> Run:
    run = await Runs(session).get(run_id)
    if run is None:
        raise no_run(run_id)
    return run


def no_run(run_id: UUID) -> NotFound:
    return NotFound(f"There is no run {run_id}.")


async def locked_asset(session: AsyncSession, asset_id: str) -> Asset:
    """The asset, undeleted and not scratch: decisions, changes and commands about one asset take turns."""
    asset = await Assets(session).lock(asset_id)
    if asset is None:
        raise no_asset(asset_id)
    refuse_scratch(asset)
    return asset


def no_asset(asset_id: str) -> NotFound:
    """Return the refusal of an asset that does not exist or that this caller may not know of."""
    return NotFound(f"There is no asset {asset_id}.")


def refuse_scratch(asset: Asset) -> None:
    """Refuse a scratch asset. Every use case that publishes, or prepares to, calls this."""
    if told := refusal(asset.asset_id, asset.platform_id):
        raise ScratchAsset(told)
