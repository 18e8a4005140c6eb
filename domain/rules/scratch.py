"""Scratch: the assets that operators' own runs make, and what may never become of them. Pure.

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
    """What names the asset: no two requests share one, so no two runs disturb one another."""
    return {"request": str(request_id), "workflow": workflow_id}


def asset_id(workflow_id: str, request_id: UUID) -> str:
    return identity.asset_id(PLATFORM, refs(workflow_id, request_id))


def data_type(accepts: Mapping[str, Collection[str]], handlers: Collection[str]) -> str:
    """What the run makes: the kind that its workflow accepts, else the kind that its handlers work on."""
    if kinds := sorted(accepts.get("data_type", ())):
        return kinds[0]
    families = {name.partition(".")[0] for name in handlers}
    return next((kind for kind in ("vector", "raster") if kind in families), "other")


def refusal(asset_id: str, platform_id: str) -> str | None:
    """Why nothing may be decided or published about the asset; None where it is a partner's."""
    if not is_scratch(platform_id):
        return None
    return (
        f"Asset {asset_id} was made by an operator's own run and can never be approved, cleared or published. "
        "Have the data submitted by its partner; delete this asset when you have seen enough."
    )
