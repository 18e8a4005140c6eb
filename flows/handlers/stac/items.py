"""Builds what every item says, whatever the product is: id, platform's names, place, origin. Pure.

Hrefs of our own are written as `cairn://zone/name`: where a file is served is decided at approval.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from pydantic import AwareDatetime, BaseModel, Field

from domain.contracts.artifacts import Artifact, Bounds
from domain.rules.publication import item_id
from flows.handlers.errors import NoAsset
from flows.handlers.origins import shown
from flows.handlers.stac.footprints import checked_bbox, footprint
from flows.handlers.stac.models import PLATFORM_PREFIX, Properties, StacAsset, StacItem, StacLink

ITEM_MEDIA_TYPE: Final = "application/geo+json"
_SHA256_MULTIHASH: Final = "1220"
_SOFTWARE: Final = "cairn-platform"
_TEXT_LENGTH: Final = 300


class MadeVersion(BaseModel):
    """What the domain tells about the version that is being made."""

    asset_id: str
    version_ordinal: int
    revision: int
    version_label: str
    request_id: str
    refs: dict[str, str] = Field(default_factory=dict)
    received_at: AwareDatetime | None = None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "MadeVersion":
        """Return the facts of the run, refusing one without an asset."""
        missing = [name for name, field in cls.model_fields.items() if field.is_required() and told.get(name) is None]
        if missing:
            raise NoAsset(
                f"A catalogue item needs an asset, and this run is about none: it has no {', '.join(missing)}. "
                "Submit the data, or have an operator run the workflow anew: each such run has a scratch asset."
            )
        return cls.model_validate(told)


@dataclass(frozen=True)
class DerivedFrom:
    """What a product was derived from. The digest of a very large source is unknown."""

    name: str
    sha256: str | None = None


@dataclass(frozen=True)
class CataloguedProduct:
    """A finished product, as far as the catalogue is concerned. `part` names a piece of one that has many."""

    bounds: Bounds
    assets: Mapping[str, StacAsset]
    properties: Mapping[str, Any] = field(default_factory=dict)
    lineage: str | None = None
    outline: Sequence[object] | None = None
    part: str | None = None


def item(product: CataloguedProduct, source: DerivedFrom, facts: MadeVersion, now: datetime) -> StacItem:
    """The product as an item of its asset's collection."""
    whole = item_id(facts.asset_id, facts.version_ordinal, facts.revision)
    properties = {
        "datetime": facts.received_at or now,  # when the ground was seen is not known
        "created": now,
        "processing__lineage": product.lineage,
        "processing__software": _software(),
        **product.properties,
    }
    return StacItem(
        id=whole if product.part is None else f"{whole}-{product.part}",
        collection=facts.asset_id,
        geometry=footprint(product.bounds, product.outline),
        bbox=checked_bbox(product.bounds),
        properties=Properties(**properties, **platform_names(facts)),
        assets=dict(product.assets),
        links=[_collection_link(facts.asset_id), _origin(source)],
    )


def platform_names(facts: MadeVersion) -> dict[str, str]:
    """The platform's own names for this version, so that it finds its data by them."""
    own = {f"{PLATFORM_PREFIX}{ref}": value for ref, value in facts.refs.items()}
    return {
        **own,
        f"{PLATFORM_PREFIX}version_id": facts.version_label,
        f"{PLATFORM_PREFIX}request_id": facts.request_id,
    }


def file_asset(artifact: Artifact, roles: Sequence[str], **fields: Any) -> StacAsset:
    """A file that the run left behind, with what it takes to trust it."""
    return StacAsset(
        href=f"cairn://{artifact.zone}/{artifact.name}",
        type=artifact.media_type,
        roles=list(roles),
        file__size=artifact.size_bytes,
        file__checksum=multihash(artifact.sha256),
        **fields,
    )


def multihash(sha256: str) -> str:
    """The digest in the form that the file extension wants: its kind and length before it."""
    return _SHA256_MULTIHASH + sha256


def plain_text(text: str | None) -> str | None:
    """Return words of the data as one short storable line; None where nothing is left."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text or "").split())
    return line[:_TEXT_LENGTH] or None


@cache
def _software() -> dict[str, str]:
    return {_SOFTWARE: version(_SOFTWARE)}


def _collection_link(asset_id: str) -> StacLink:
    return StacLink(rel="collection", href=f"cairn://collection/{asset_id}", type="application/json")


def _origin(source: DerivedFrom) -> StacLink:
    checksum = multihash(source.sha256) if source.sha256 else None
    return StacLink(rel="derived_from", href=f"cairn://bronze/{shown(source.name)}", file__checksum=checksum)
