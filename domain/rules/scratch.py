"""The rules of scratch assets, which operators' own runs make and nobody can publish. Pure.

Such an asset belongs to one run's request alone. Its platform is nobody's: it is never active, so it has no credentials
and takes no submission.
"""

from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from domain.rules import identity

PLATFORM: Final = "internal"
LABEL: Final = "scratch"
ORDINAL: Final = 0
REVISION: Final = 1


def is_scratch(platform_id: str | None) -> bool:
    """Whether assets of this platform are scratch: staff may look at them, and nobody else ever."""
    return platform_id == PLATFORM


def refs(workflow_id: str, request_id: UUID) -> dict[str, str]:
    """Return the asset's references: no two requests share them, so no run disturbs another."""
    return {"request": str(request_id), "workflow": workflow_id}


def asset_id(workflow_id: str, request_id: UUID) -> str:
    return identity.asset_id(PLATFORM, refs(workflow_id, request_id))


def data_type(accepts: Mapping[str, Collection[str]], handlers: Collection[str]) -> str:
    """Return the kind of data that the run makes, by what its workflow accepts or its handlers work on."""
    if kinds := sorted(accepts.get("data_type", ())):
        return kinds[0]
    families = {name.partition(".")[0] for name in handlers}
    return next((kind for kind in ("vector", "raster") if kind in families), "other")


def refusal(asset_id: str, platform_id: str) -> str | None:
    """Return why nothing may be decided or published about a scratch asset; None for a partner's asset."""
    if not is_scratch(platform_id):
        return None
    return (
        f"Asset {asset_id} was made by an operator's own run and can never be approved, cleared or published. "
        "Have the data submitted by its partner; delete this asset when you have seen enough."
    )
