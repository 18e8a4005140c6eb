"""What of an asset belongs into the external zone, and what a change of it asks for. Pure."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

from domain.rules.clearance import Clearance, Exposure, may_have
from domain.rules.versions import latest

Served = tuple[int, int]  # ordinal, revision


@dataclass(frozen=True)
class Publicity:
    """All that decides who sees an asset's versions. `served` maps undeleted versions to approved revisions."""

    clearance: Clearance
    exposure: Exposure
    deleted: bool
    served: Mapping[int, int]


class ExportOrder(StrEnum):
    EXPORT = "export"
    WITHDRAW = "withdraw"
    NOTHING = "nothing"


def exposed(asset: Publicity) -> frozenset[Served]:
    """The revisions that everybody may read: approved, of a public asset, and offered by its exposure."""
    newest = latest(asset.served)
    return frozenset(
        (ordinal, revision)
        for ordinal, revision in asset.served.items()
        if not asset.deleted
        and may_have(None, asset.clearance, asset.exposure, "", approved=True, is_latest=ordinal == newest)
    )


def order(*, is_out: bool, belongs_out: bool) -> ExportOrder:
    """Return the order that brings one revision from where it is to where it belongs."""
    if is_out == belongs_out:
        return ExportOrder.NOTHING
    return ExportOrder.EXPORT if belongs_out else ExportOrder.WITHDRAW


def orders(out: Set[Served], asset: Publicity) -> dict[Served, ExportOrder]:
    """Return an order for each revision that is exported, being exported or due to be. Oldest first."""
    wanted = exposed(asset)
    return {
        revision: order(is_out=revision in out, belongs_out=revision in wanted) for revision in sorted(out | wanted)
    }
