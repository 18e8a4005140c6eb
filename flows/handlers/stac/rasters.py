"""Raster products as the catalogue describes them: projection, bands, statistics, files. Pure; knows no GDAL.

The raster handlers tell more from time to time; whatever is there is written, and nothing has to be.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel

from domain.contracts.artifacts import Artifact, Bounds
from flows.handlers.errors import HandlerError
from flows.handlers.stac.items import CataloguedProduct, file_asset, plain_text
from flows.handlers.stac.models import DataType, StacAsset, StacBand, StacStatistics

# Of a product's files, the one that is the product comes first in this list; the others are called by their role.
DATA_ROLES: Final = ("cog", "tile", "mosaic")
_KNOWN_TYPES: Final = frozenset(get_args(DataType))
_STATISTICS: Final = ("minimum", "maximum", "mean", "stddev", "valid_percent")
_WORDS_FOR_NUMBERS: Final = {math.inf: "inf", -math.inf: "-inf"}


def raster_product(told: BaseModel, part: str | None = None) -> CataloguedProduct:
    """A finished raster, or one tile of it."""
    facts = told.model_dump()
    artifacts = [Artifact.model_validate(one) for one in facts["artifacts"]]
    bounds: Bounds = facts["bounds_wgs84"]
    return CataloguedProduct(
        bounds=bounds,
        assets=_assets(artifacts, facts),
        properties=_projection(facts),
        lineage=_lineage(facts),
        outline=facts.get("footprint_wgs84"),
        part=part,
    )


def _assets(artifacts: Sequence[Artifact], facts: Mapping[str, Any]) -> dict[str, StacAsset]:
    data = _data(artifacts)
    bands = [_band(number, band) for number, band in enumerate(facts.get("bands") or [], start=1)]
    assets = {"data": file_asset(data, ["data"], bands=bands or None, raster__sampling="area")}
    for artifact in artifacts:
        if artifact is not data and artifact.zone == "silver":
            assets[artifact.role] = file_asset(artifact, [_stac_role(artifact.role)])
    return assets


def _data(artifacts: Sequence[Artifact]) -> Artifact:
    for role in DATA_ROLES:
        for artifact in artifacts:
            if artifact.role == role:
                return artifact
    raise HandlerError(f"The product has no artifact of role {' or '.join(map(repr, DATA_ROLES))}.")


def _stac_role(role: str) -> str:
    """STAC's own word where there is one."""
    return role if role in {"thumbnail", "overview", "metadata"} else "metadata"


def _projection(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the projection extension, as far as they are known."""
    height, width = facts.get("height"), facts.get("width")
    return {
        "proj__code": facts.get("crs"),
        "proj__bbox": facts.get("bounds_native"),
        "proj__shape": (height, width) if height and width else None,
        "proj__transform": facts.get("transform"),
    }


def _lineage(facts: Mapping[str, Any]) -> str:
    crs = facts.get("crs")
    return f"Written as a cloud-optimised GeoTIFF{f' in {crs}' if crs else ''} from the file that was submitted."


def _band(number: int, told: Mapping[str, Any]) -> StacBand:
    scale, offset = told.get("scale"), told.get("offset")
    is_scaled = (scale, offset) not in {(None, None), (1, 0)}
    dtype = str(told.get("dtype") or told.get("data_type"))
    return StacBand(
        name=f"b{number}",
        description=plain_text(told.get("description")),
        data_type=dtype if dtype in _KNOWN_TYPES else "other",
        nodata=_number_or_word(told.get("nodata")),
        unit=plain_text(told.get("unit")),
        statistics=_statistics(told),
        raster__scale=scale if is_scaled else None,
        raster__offset=offset if is_scaled else None,
    )


def _number_or_word(value: float | None) -> Any:
    """Return the number, or STAC's word for one that JSON cannot hold."""
    if value is None or math.isfinite(value):
        return value
    return _WORDS_FOR_NUMBERS.get(value, "nan")


def _statistics(told: Mapping[str, Any]) -> StacStatistics | None:
    """What is known and is a number: a band without a valid pixel has no mean."""
    known = {name: told[name] for name in _STATISTICS if _is_number(told.get(name))}
    return StacStatistics(**known) if known else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
