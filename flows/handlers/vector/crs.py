"""Finds a layer's CRS as an EPSG code, and reprojects from there. Never looks text up elsewhere."""

import re
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import shapely
from pyproj import CRS, Transformer
from pyproj.exceptions import CRSError, ProjError

from domain.contracts.artifacts import Bounds
from flows.handlers.errors import InvalidInput
from flows.handlers.vector.geometry import Geometries

Ordinates = npt.NDArray[np.float64]

WGS84: Final = "EPSG:4326"
_CODE: Final = re.compile(r"EPSG:[0-9]{4,6}")
_LONGITUDE_LATITUDE: Final = ("OGC:CRS84", "urn:ogc:def:crs:OGC:1.3:CRS84")


def code_of(told: str | None, given: str | None, name: str) -> str:
    """The EPSG code of what the file tells, or the given one where it tells nothing."""
    if not told:
        if given is None:
            raise InvalidInput(f"{name!r} names no CRS. Write one into the file, or state it as `source_crs`.")
        return checked(given)
    if told in _LONGITUDE_LATITUDE:
        return WGS84
    if _CODE.fullmatch(told):
        return checked(told)
    try:
        found = CRS.from_wkt(told).to_epsg()
    except CRSError:
        found = None
    if found is None:
        raise InvalidInput(f"The CRS of {name!r} has no EPSG code. Reproject it to one that has, and send it again.")
    return checked(f"EPSG:{found}")


@cache
def checked(code: str) -> str:
    """The code again, if a map can be drawn in it: neither heights alone nor geocentric."""
    try:
        crs = CRS.from_epsg(int(code.removeprefix("EPSG:")))
    except CRSError:
        crs = None
    if crs is None or not (crs.is_geographic or crs.is_projected) or crs.is_geocentric:
        raise InvalidInput(f"{code} is not a CRS of maps that is known here.")
    return code


@cache
def _transformer(source: str, target: str) -> Transformer:
    return Transformer.from_crs(source, target, always_xy=True)


def reprojected(geometries: Geometries, source: str, target: str, *, has_heights: bool) -> Geometries:
    """The geometries in the target CRS; heights stay as they are."""
    if source == target:
        return geometries
    move = _transformer(source, target).transform

    def moved(x: Ordinates, y: Ordinates, z: Ordinates | None = None) -> tuple[Ordinates, ...]:
        return move(x, y) if z is None else (*move(x, y), z)

    made: Geometries = shapely.transform(geometries, moved, include_z=has_heights, interleaved=False)
    return made


def bounds_wgs84(native: Bounds, crs: str, name: str) -> Bounds:
    """West, south, east and north in degrees; refuses places that are not on Earth."""
    try:
        found = _transformer(crs, WGS84).transform_bounds(*native) if crs != WGS84 else native
    except ProjError:
        found = (np.nan,) * 4
    west, south, east, north = (float(each) for each in found)
    # Written so that NaN and infinity fail it too. Data may reach a little, or a full turn, past 180 degrees.
    if not (-181 <= min(west, east) <= max(west, east) <= 361 and -91 <= south <= north <= 91):
        raise InvalidInput(
            f"The coordinates of {name!r} do not fit {crs}: they lie outside of the Earth. Check its CRS."
        )
    return west, south, east, north
