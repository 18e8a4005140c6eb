"""Writes STAC items as JSON. Runs on the light pool: knows pystac and no GDAL; the catalogue is the domain's affair.

Links and hrefs of our own are written as `cairn://zone/name`: where a file is served is decided at approval.
"""

import hashlib
import json
import math
from datetime import UTC, datetime
from typing import Any, Final

import pystac
from pydantic import AwareDatetime, BaseModel, Field
from pystac.extensions.file import FileExtension
from pystac.extensions.projection import ProjectionExtension

from domain.contracts.artifacts import Artifact, Bounds
from flows.context import Context
from flows.errors import HandlerError
from flows.handlers.raster.declarations import BandStatistics, CogResult, RegisterItemParams, RegisterItemResult

# pystac writes version 1 of the raster extension, which STAC 1.1 replaced by `bands` and these few fields.
RASTER_EXTENSION: Final = "https://stac-extensions.github.io/raster/v2.0.0/schema.json"
MEDIA_TYPE: Final = "application/geo+json"
_SHA256_MULTIHASH: Final = "1220"


class Facts(BaseModel):
    """What the domain tells about the version that is being made."""

    asset_id: str
    version_ordinal: int
    revision: int
    version_label: str
    request_id: str
    refs: dict[str, str] = Field(default_factory=dict)
    received_at: AwareDatetime | None = None


def register_item(params: RegisterItemParams, context: Context) -> RegisterItemResult:
    """Describe one product as a STAC 1.1 item, staged in the silver zone."""
    item = _item(params, Facts.model_validate(context.facts))
    content = json.dumps(item.to_dict(include_self_link=False, transform_hrefs=False), indent=2).encode()
    name = context.output_name("item.json")
    context.storage.silver.write_bytes(name, content)
    written = Artifact(
        role="stac_item",
        zone="silver",
        name=name,
        media_type=MEDIA_TYPE,
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        bbox=params.product.bounds_wgs84,
    )
    return RegisterItemResult(item=name, item_id=item.id, collection_id=str(item.collection_id), artifacts=[written])


def _item(params: RegisterItemParams, facts: Facts) -> pystac.Item:
    product = params.product
    item = pystac.Item(
        id=f"{facts.asset_id}-{facts.version_ordinal}-r{facts.revision}",
        geometry=_footprint(product.bounds_wgs84),
        bbox=list(product.bounds_wgs84),
        datetime=facts.received_at or datetime.now(UTC),  # when the ground was seen is not known
        properties=_platform_properties(facts),
        collection=facts.asset_id,
    )
    ProjectionExtension.ext(item, add_if_missing=True).apply(
        code=product.crs,
        bbox=list(product.bounds_native),
        shape=[product.height, product.width],
        transform=product.transform,
    )
    item.stac_extensions.append(RASTER_EXTENSION)
    _add_data(item, product)
    item.add_link(pystac.Link(pystac.RelType.COLLECTION, f"cairn://collection/{facts.asset_id}", pystac.MediaType.JSON))
    checksum = {"file:checksum": _SHA256_MULTIHASH + params.source_sha256} if params.source_sha256 else {}
    item.add_link(pystac.Link(pystac.RelType.DERIVED_FROM, f"cairn://bronze/{params.source}", extra_fields=checksum))
    return item


def _add_data(item: pystac.Item, product: CogResult) -> None:
    """Attach the product with its size, digest and bands."""
    cog = _artifact(product, "cog")
    bands = [_band(number, band) for number, band in enumerate(product.bands, start=1)]
    asset = pystac.Asset(
        href=f"cairn://{cog.zone}/{cog.name}",
        media_type=cog.media_type,
        roles=["data"],
        extra_fields={"bands": bands, "raster:sampling": "area"},
    )
    item.add_asset("data", asset)
    FileExtension.ext(asset, add_if_missing=True).apply(size=cog.size_bytes, checksum=_SHA256_MULTIHASH + cog.sha256)


def _platform_properties(facts: Facts) -> dict[str, Any]:
    """The platform's own names for this version, so that it finds its data by them."""
    own = {f"platform:{ref}": value for ref, value in facts.refs.items()}
    return {**own, "platform:version_id": facts.version_label, "platform:request_id": facts.request_id}


def _artifact(product: CogResult, role: str) -> Artifact:
    for artifact in product.artifacts:
        if artifact.role == role:
            return artifact
    raise HandlerError(f"The product has no artifact of role {role!r}.")


def _footprint(bounds: Bounds) -> dict[str, Any]:
    """The bounding box as a polygon, in two parts where it crosses the antimeridian (RFC 7946, 3.1.9)."""
    west, south, east, north = bounds
    if west <= east:
        return {"type": "Polygon", "coordinates": [_ring(west, south, east, north)]}
    parts = [[_ring(west, south, 180.0, north)], [_ring(-180.0, south, east, north)]]
    return {"type": "MultiPolygon", "coordinates": parts}


def _ring(west: float, south: float, east: float, north: float) -> list[list[float]]:
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


def _band(number: int, band: BandStatistics) -> dict[str, Any]:
    described: dict[str, Any] = {"name": f"b{number}", "data_type": band.dtype}
    if band.nodata is not None:
        described["nodata"] = "nan" if math.isnan(band.nodata) else band.nodata
    described["statistics"] = band.model_dump(include={"minimum", "maximum", "mean", "stddev", "valid_percent"})
    return described
