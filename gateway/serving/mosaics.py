"""A tiled raster as one: GDAL's virtual raster over the files of a revision's parts, which share one grid.

The catalogue's items say where each part lies, the first part's file how its pixels look. Nobody but this module writes
such a document, and it names nothing but the files that these items name.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring

from rasterio.enums import ColorInterp
from rasterio.io import DatasetReader

_OURS: Final = "cairn://silver/"
_TYPES: Final = {
    "uint8": "Byte", "int8": "Int8", "uint16": "UInt16", "int16": "Int16", "uint32": "UInt32", "int32": "Int32",
    "uint64": "UInt64", "int64": "Int64", "float32": "Float32", "float64": "Float64",
}  # fmt: skip
# Columns and rows of parts are whole numbers of pixels; what is left of them is rounding.
_SLACK: Final = 0.01
_SMALLEST: Final = 128  # pixels


class NoMosaic(Exception):
    """These parts make no single raster."""


@dataclass(frozen=True)
class Grid:
    """A raster's upper left corner and pixel size in its CRS, and its size in pixels."""

    left: float
    top: float
    pixel_width: float
    pixel_height: float
    width: int
    height: int


@dataclass(frozen=True)
class Part:
    """One file, and where it lies."""

    name: str
    place: Grid


@dataclass(frozen=True)
class Mosaic:
    """What GDAL opens, and the range that each band's values have in all parts together."""

    document: str
    bands: list[dict[str, Any]]


def parts_of(items: Iterable[Mapping[str, Any]]) -> list[Part]:
    """The parts that items tell of."""
    found = []
    for item in items:
        said, href = item["properties"], str(item["assets"]["data"]["href"])
        if not href.startswith(_OURS) or "proj:transform" not in said or "proj:shape" not in said:
            raise NoMosaic("A part does not tell where its pixels lie.")
        a, b, left, d, e, top = said["proj:transform"][:6]
        if b or d:
            raise NoMosaic("A part is rotated.")
        height, width = said["proj:shape"]
        found.append(Part(href.removeprefix(_OURS), Grid(left, top, a, e, width, height)))
    return found


def grid_of(parts: Sequence[Part]) -> Grid:
    """The grid that all parts lie on, or the refusal that there is none."""
    if not parts:
        raise NoMosaic("There are no parts.")
    places = [part.place for part in parts]
    left, top = min(place.left for place in places), max(place.top for place in places)
    corner = replace(places[0], left=left, top=top)
    for place in places:
        column, row = (place.left - left) / corner.pixel_width, (place.top - top) / corner.pixel_height
        wider, higher = place.pixel_width / corner.pixel_width - 1, place.pixel_height / corner.pixel_height - 1
        stretched = max(abs(wider) * place.width, abs(higher) * place.height)
        if max(abs(column - round(column)), abs(row - round(row)), stretched) > _SLACK:
            raise NoMosaic("The parts do not share a grid.")
    width = max(_offset(place, corner)[0] + place.width for place in places)
    height = max(_offset(place, corner)[1] + place.height for place in places)
    return replace(corner, width=width, height=height)


def _offset(place: Grid, grid: Grid) -> tuple[int, int]:
    """Column and row of the place's corner."""
    return round((place.left - grid.left) / grid.pixel_width), round((place.top - grid.top) / grid.pixel_height)


def ranges(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each band's type and range over all items; nothing where one does not tell."""
    told = [item["assets"]["data"].get("bands") or [] for item in items]
    if not told or not all(all("minimum" in band.get("statistics", {}) for band in bands) for bands in told):
        return []
    return [
        {
            "dtype": column[0]["data_type"],
            "minimum": min(band["statistics"]["minimum"] for band in column),
            "maximum": max(band["statistics"]["maximum"] for band in column),
        }
        for column in zip(*told, strict=True)
    ]


def mosaic(lines: Sequence[bytes], named: Callable[[str], str], opened: Callable[[str], DatasetReader]) -> Mosaic:
    """The virtual raster over the parts of these items. `named` tells what GDAL calls a file."""
    items = [json.loads(line) for line in lines]
    parts = parts_of(items)
    grid = grid_of(parts)
    with opened(parts[0].name) as sample:
        document = _document(parts, grid, sample, named)
        meanings = [meaning.name for meaning in sample.colorinterp]
    told = zip(ranges(items), meanings, strict=False)
    return Mosaic(document, [band | {"meaning": meaning} for band, meaning in told])


def _document(parts: Sequence[Part], grid: Grid, sample: DatasetReader, named: Callable[[str], str]) -> str:
    root = Element("VRTDataset", rasterXSize=str(grid.width), rasterYSize=str(grid.height))
    _text(root, "SRS", sample.crs.to_wkt())
    corners = (grid.left, grid.pixel_width, 0.0, grid.top, 0.0, grid.pixel_height)
    _text(root, "GeoTransform", ", ".join(map(repr, corners)))
    for number in sample.indexes:
        _band(root, number, sample, parts, grid, named)
    if sample.nodata is None and ColorInterp.alpha not in sample.colorinterp:
        mask = SubElement(SubElement(root, "MaskBand"), "VRTRasterBand", dataType="Byte")
        _sources(mask, "mask,1", sample, parts, grid, named)
    if factors := smaller_pictures(grid):
        _text(root, "OverviewList", " ".join(map(str, factors)), resampling="nearest")
    return tostring(root, encoding="unicode")


def smaller_pictures(grid: Grid) -> list[int]:
    """The factors at which the whole may be asked for: GDAL then reads the parts' own smaller pictures."""
    factors = [2**power for power in range(1, 24)]
    return [factor for factor in factors if min(grid.width, grid.height) // factor >= _SMALLEST]


def _band(
    root: Element, number: int, sample: DatasetReader, parts: Sequence[Part], grid: Grid, named: Callable[[str], str]
) -> None:
    band = SubElement(root, "VRTRasterBand", dataType=_TYPES[sample.dtypes[number - 1]], band=str(number))
    _meaning(band, number - 1, sample)
    if sample.nodata is not None:
        _text(band, "NoDataValue", repr(sample.nodata))
    meaning = sample.colorinterp[number - 1]
    _text(band, "ColorInterp", meaning.name.capitalize())
    if meaning is ColorInterp.palette:
        table = SubElement(band, "ColorTable")
        for _, colour in sorted(sample.colormap(number).items()):
            SubElement(table, "Entry", {f"c{place}": str(value) for place, value in enumerate(colour, start=1)})
    _sources(band, str(number), sample, parts, grid, named)


def _meaning(band: Element, place: int, sample: DatasetReader) -> None:
    """What the numbers stand for. A file that says nothing of it is not made to say what is usual."""
    said = {"Description": sample.descriptions[place], "UnitType": sample.units[place]}
    shift, factor = sample.offsets[place], sample.scales[place]
    said |= {"Offset": repr(shift) if shift != 0.0 else None, "Scale": repr(factor) if factor != 1.0 else None}
    for name, text in said.items():
        if text:
            _text(band, name, text)


def _sources(
    band: Element,
    source_band: str,
    sample: DatasetReader,
    parts: Sequence[Part],
    grid: Grid,
    named: Callable[[str], str],
) -> None:
    """Every part at its place. Its size is told, so that GDAL opens only those that are looked at."""
    block = str(sample.block_shapes[0][0])
    kind = _TYPES[sample.dtypes[0]]
    for part in parts:
        column, row = _offset(part.place, grid)
        width, height = str(part.place.width), str(part.place.height)
        source = SubElement(band, "SimpleSource")
        _text(source, "SourceFilename", named(part.name), relativeToVRT="0", shared="0")
        _text(source, "SourceBand", source_band)
        SubElement(
            source, "SourceProperties", RasterXSize=width, RasterYSize=height, DataType=kind,
            BlockXSize=block, BlockYSize=block,
        )  # fmt: skip
        SubElement(source, "SrcRect", xOff="0", yOff="0", xSize=width, ySize=height)
        SubElement(source, "DstRect", xOff=str(column), yOff=str(row), xSize=width, ySize=height)


def _text(parent: Element, name: str, text: str, **attributes: str) -> None:
    SubElement(parent, name, attributes).text = text
