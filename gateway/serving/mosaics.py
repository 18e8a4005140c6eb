"""A tiled raster as one, and any raster with fewer bands: GDAL's virtual raster over files that share one grid.

The catalogue's items say where each part lies, the first part's file how its pixels look. Nobody but this module writes
such a document, and it names nothing but the files that these items name.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring

from cachetools import LRUCache
from rasterio.io import DatasetReader

from domain.rules.rendering import HIGHEST_PERCENT, LOWEST_PERCENT, percentile_of_parts

_OURS: Final = "cairn://silver/"
_TYPES: Final = {
    "uint8": "Byte", "int8": "Int8", "uint16": "UInt16", "int16": "Int16", "uint32": "UInt32", "int32": "Int32",
    "uint64": "UInt64", "int64": "Int64", "float32": "Float32", "float64": "Float64",
}  # fmt: skip
# Columns and rows of parts are whole numbers of pixels; what is left of them is rounding.
_SLACK: Final = 0.01
_SMALLEST: Final = 128  # pixels
_DOCUMENTS: Final = 4  # remembered ones of a mosaic: the picture that most ask for, and a few others


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
class Header:
    """What a raster's file says of its bands, the same for all parts of one raster."""

    crs: str
    nodata: float | None
    dtypes: tuple[str, ...]
    meanings: tuple[str, ...]
    descriptions: tuple[str | None, ...]
    units: tuple[str | None, ...]
    offsets: tuple[float, ...]
    scales: tuple[float, ...]
    colours: Mapping[int, Mapping[int, tuple[int, ...]]]
    """The colours of the bands that are numbers of a palette."""
    block: int
    place: Grid

    @property
    def alpha(self) -> int | None:
        """The number of the band that says which pixels count."""
        return self.meanings.index("alpha") + 1 if "alpha" in self.meanings else None

    @property
    def all(self) -> tuple[int, ...]:
        """The numbers of all bands."""
        return tuple(range(1, len(self.dtypes) + 1))

    @property
    def data(self) -> list[int]:
        """The numbers of the bands that hold values."""
        return [number for number, meaning in enumerate(self.meanings, start=1) if meaning != "alpha"]

    @property
    def is_alpha_legible(self) -> bool:
        """Whether the library reads alpha rightly, which needs values as large as the type allows."""
        return self.alpha is None or self.dtypes[self.alpha - 1] in {"uint8", "uint16"}

    def known(self, stored: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
        """What is known of each band: what was counted when it was made, and what the file says."""
        count = len(self.dtypes)
        is_of_these = isinstance(stored, list) and len(stored) == count
        counted = [dict(band) if isinstance(band, dict) else {} for band in (stored or [])] if is_of_these else []
        said = zip(self.dtypes, self.meanings, self.descriptions, counted or [{}] * count, strict=True)
        return [
            band | {"dtype": dtype, "meaning": meaning, "description": name or band.get("description")}
            for dtype, meaning, name, band in said
        ]


@dataclass(frozen=True)
class Mosaic:
    """Files of one grid, and the range that each band's values have in all of them together."""

    parts: list[Part]
    grid: Grid
    header: Header
    bands: list[dict[str, Any]]
    _written: LRUCache[tuple[int, ...], str] = field(default_factory=lambda: LRUCache(_DOCUMENTS), compare=False)
    _turn: Lock = field(default_factory=Lock, compare=False)

    def document(self, numbers: Sequence[int]) -> str:
        """The virtual raster of these bands, in this order, and of the transparency that comes with them.

        GDAL reprojects all bands of what it opens, whichever are asked for.
        """
        with self._turn:  # readers are threads, and the cache is for one at a time
            known: str | None = self._written.get(tuple(numbers))
            if known is None:
                known = self._written[tuple(numbers)] = _document(self, numbers)
            return known


def header_of(raster: DatasetReader) -> Header:
    """What an open raster says of itself."""
    meanings = tuple(meaning.name for meaning in raster.colorinterp)
    palettes = [number for number, meaning in enumerate(meanings, start=1) if meaning == "palette"]
    transform = raster.transform
    return Header(
        crs=raster.crs.to_wkt() if raster.crs else "",
        nodata=raster.nodata,
        dtypes=tuple(raster.dtypes),
        meanings=meanings,
        descriptions=tuple(raster.descriptions),
        units=tuple(raster.units),
        offsets=tuple(raster.offsets),
        scales=tuple(raster.scales),
        colours={number: raster.colormap(number) for number in palettes},
        block=raster.block_shapes[0][0],
        place=Grid(transform.c, transform.f, transform.a, transform.e, raster.width, raster.height),
    )


def single(name: str, header: Header) -> Mosaic:
    """Return one file as a mosaic of itself, under the name by which GDAL opens it."""
    return Mosaic([Part(name, header.place)], header.place, header, [])


def parts_of(items: Iterable[Mapping[str, Any]]) -> list[Part]:
    """Return the parts that the items describe."""
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


def counted(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the statistics of each band over all items; none where an item has none."""
    told = [(_pixels(item), item["assets"]["data"].get("bands") or []) for item in items]
    if not told or not all(all("minimum" in band.get("statistics", {}) for band in bands) for _, bands in told):
        return []
    columns = zip(*(bands for _, bands in told), strict=True)
    return [
        _merged_band([(pixels, band) for (pixels, _), band in zip(told, column, strict=True)]) for column in columns
    ]


def _pixels(item: Mapping[str, Any]) -> int:
    height, width = item["properties"]["proj:shape"]
    return int(height) * int(width)


def _merged_band(parts: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[str, Any]:
    """Merge one band of all parts: the range of its values, and its percentiles."""
    each = [(pixels, band["statistics"]) for pixels, band in parts]
    valid = [(pixels * said.get("valid_percent", 100) / 100, said) for pixels, said in each]
    some = [said for weight, said in valid if weight] or [said for _, said in valid]
    return {
        "dtype": parts[0][1]["data_type"],
        "minimum": min(said["minimum"] for said in some),
        "maximum": max(said["maximum"] for said in some),
        "percentile_2": percentile_of_parts(valid, LOWEST_PERCENT),
        "percentile_98": percentile_of_parts(valid, HIGHEST_PERCENT),
    } | ({} if any(weight for weight, _ in valid) else {"valid_percent": 0})


def mosaic(lines: Sequence[bytes], named: Callable[[str], str], opened: Callable[[str], DatasetReader]) -> Mosaic:
    """The mosaic of the parts of these items. `named` tells what GDAL calls a file."""
    items = [json.loads(line) for line in lines]
    parts = parts_of(items)
    grid = grid_of(parts)
    with opened(parts[0].name) as sample:
        header = header_of(sample)
    return Mosaic([replace(part, name=named(part.name)) for part in parts], grid, header, counted(items))


def _document(whole: Mosaic, numbers: Sequence[int]) -> str:
    grid, header = whole.grid, whole.header
    root = Element("VRTDataset", rasterXSize=str(grid.width), rasterYSize=str(grid.height))
    _text(root, "SRS", header.crs)
    corners = (grid.left, grid.pixel_width, 0.0, grid.top, 0.0, grid.pixel_height)
    _text(root, "GeoTransform", ", ".join(map(repr, corners)))
    has_alpha = header.alpha is not None and header.is_alpha_legible
    last = [header.alpha] if has_alpha and header.alpha and header.alpha not in numbers else []
    for place, number in enumerate([*numbers, *last], start=1):
        _band(root, place, number, whole)
    if header.nodata is None and not has_alpha:
        mask = SubElement(SubElement(root, "MaskBand"), "VRTRasterBand", dataType="Byte")
        _sources(mask, "mask,1", whole)
    if factors := smaller_pictures(grid):
        _text(root, "OverviewList", " ".join(map(str, factors)), resampling="nearest")
    return tostring(root, encoding="unicode")


def smaller_pictures(grid: Grid) -> list[int]:
    """The factors at which the whole may be asked for: GDAL then reads the parts' own smaller pictures."""
    factors = [2**power for power in range(1, 24)]
    return [factor for factor in factors if min(grid.width, grid.height) // factor >= _SMALLEST]


def _band(root: Element, place: int, number: int, whole: Mosaic) -> None:
    header, meaning = whole.header, whole.header.meanings[number - 1]
    band = SubElement(root, "VRTRasterBand", dataType=_TYPES[header.dtypes[number - 1]], band=str(place))
    _meaning(band, number - 1, header)
    if header.nodata is not None:
        _text(band, "NoDataValue", repr(header.nodata))
    is_illegible = meaning == "alpha" and not header.is_alpha_legible
    _text(band, "ColorInterp", "Undefined" if is_illegible else meaning.capitalize())
    if meaning == "palette":
        table = SubElement(band, "ColorTable")
        for _, colour in sorted(header.colours[number].items()):
            SubElement(table, "Entry", {f"c{at}": str(value) for at, value in enumerate(colour, start=1)})
    _sources(band, str(number), whole)


def _meaning(band: Element, place: int, header: Header) -> None:
    """Write what the numbers stand for, and nothing where the file says nothing."""
    said = {"Description": header.descriptions[place], "UnitType": header.units[place]}
    shift, factor = header.offsets[place], header.scales[place]
    said |= {"Offset": repr(shift) if shift != 0.0 else None, "Scale": repr(factor) if factor != 1.0 else None}
    for name, text in said.items():
        if text:
            _text(band, name, text)


def _sources(band: Element, source_band: str, whole: Mosaic) -> None:
    """Write every part at its place with its size, so that GDAL opens only the parts it needs."""
    block, kind = str(whole.header.block), _TYPES[whole.header.dtypes[0]]
    for part in whole.parts:
        column, row = _offset(part.place, whole.grid)
        width, height = str(part.place.width), str(part.place.height)
        source = SubElement(band, "SimpleSource")
        _text(source, "SourceFilename", part.name, relativeToVRT="0", shared="0")
        _text(source, "SourceBand", source_band)
        SubElement(
            source, "SourceProperties", RasterXSize=width, RasterYSize=height, DataType=kind,
            BlockXSize=block, BlockYSize=block,
        )  # fmt: skip
        SubElement(source, "SrcRect", xOff="0", yOff="0", xSize=width, ySize=height)
        SubElement(source, "DstRect", xOff=str(column), yOff=str(row), xSize=width, ySize=height)


def _text(parent: Element, name: str, text: str, **attributes: str) -> None:
    SubElement(parent, name, attributes).text = text
