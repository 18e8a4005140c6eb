"""Makes geometries valid, and counts what had to be done. Knows shapely; knows no file and no table."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import shapely

from domain.contracts.artifacts import Bounds

Geometries = npt.NDArray[Any]

# What a repair may turn a geometry into: what remains of it in its own dimension.
_TYPE_NAMES: Final = {
    0: "Point", 1: "LineString", 2: "LineString", 3: "Polygon",
    4: "MultiPoint", 5: "MultiLineString", 6: "MultiPolygon", 7: "GeometryCollection",
}  # fmt: skip
_KINDS_BY_DIMENSION: Final = ((0, 4), (1, 2, 5), (3, 6))


@dataclass
class Findings:
    """What was found in all features of a layer."""

    repaired: int = 0
    rejected: int = 0
    without_geometry: int = 0
    flattened: int = 0
    types: set[str] = field(default_factory=set)
    bounds: Bounds | None = None

    @property
    def changed(self) -> int:
        """How many geometries are not as they came."""
        return self.repaired + self.flattened

    @property
    def geometry_type(self) -> str:
        """The one type of all geometries, the collective one beside its single one, else Geometry."""
        if len(self.types) == 1:
            return next(iter(self.types))
        single = {each.removeprefix("Multi") for each in self.types}
        return f"Multi{single.pop()}" if len(single) == 1 else "Geometry"

    def add(self, geometries: Geometries) -> None:
        """Count the types and widen the bounds."""
        there = geometries[~shapely.is_missing(geometries)]
        if not len(there):
            return
        self.types |= {_TYPE_NAMES[int(each)] for each in np.unique(shapely.get_type_id(there))}
        found = [float(each) for each in shapely.total_bounds(there)]
        known = self.bounds or (found[0], found[1], found[2], found[3])
        self.bounds = (*np.minimum(known[:2], found[:2]).tolist(), *np.maximum(known[2:], found[2:]).tolist())


def decoded(wkb: pa.Array, findings: Findings) -> tuple[Geometries, npt.NDArray[np.bool_]]:
    """The batch's valid geometries, and which of its features can be kept."""
    geometries = shapely.from_wkb(wkb.to_numpy(zero_copy_only=False), on_invalid="ignore")
    broken = shapely.is_missing(geometries) & np.asarray(wkb.is_valid())
    geometries[shapely.is_empty(geometries)] = None
    findings.without_geometry += int((shapely.is_missing(geometries) & ~broken).sum())
    rejected = broken | _repaired(geometries, findings)
    findings.rejected += int(rejected.sum())
    return geometries, ~rejected


def levelled(geometries: Geometries, findings: Findings, *, has_heights: bool) -> Geometries:
    """Give all geometries heights or none, since a table's column holds one kind."""
    with_heights = int(shapely.has_z(geometries).sum())
    if not has_heights and not with_heights:
        return geometries
    findings.flattened += 0 if has_heights else with_heights
    made: Geometries = shapely.force_3d(geometries) if has_heights else shapely.force_2d(geometries)
    return made


def _repaired(geometries: Geometries, findings: Findings) -> npt.NDArray[np.bool_]:
    """Replace what is invalid by what is valid of it; tells where nothing was."""
    finite = _finite(geometries)
    invalid = ~shapely.is_missing(geometries) & ~(shapely.is_valid(geometries) & finite)
    lost = np.zeros(len(geometries), np.bool_)
    for index in np.flatnonzero(invalid):
        geometries[index] = repaired(geometries[index]) if finite[index] else None
        lost[index] = geometries[index] is None
    findings.repaired += int(invalid.sum() - lost.sum())
    return lost


def _finite(geometries: Geometries) -> npt.NDArray[np.bool_]:
    return np.asarray(np.isfinite(shapely.bounds(geometries)).all(axis=1))


def repaired(geometry: shapely.Geometry) -> shapely.Geometry | None:
    """The valid parts of a geometry that have its own dimension, or None where there are none."""
    try:
        made = shapely.make_valid(geometry, method="structure", keep_collapsed=False)
    except shapely.GEOSException:
        return None
    kinds = _KINDS_BY_DIMENSION[max(int(shapely.get_dimensions(geometry)), 0)]
    parts = [each for each in shapely.get_parts(made).tolist() if shapely.get_type_id(each) in kinds]
    kept = made if geometry.geom_type == "GeometryCollection" or not parts else shapely.union_all(parts)
    return kept if parts and not kept.is_empty else None
