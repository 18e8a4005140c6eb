"""Rasters for tests: honest ones from the sample formula, and files that lie."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.transform import from_origin

from deployments import sample
from flows.handlers.context import Context
from flows.storage import Zones

PLACE = from_origin(sample.WEST_METRES, sample.NORTH_METRES, sample.PIXEL_METRES, sample.PIXEL_METRES)


def context_in(root: Path, **more: Any) -> Context:
    """A handler's context over zones in a folder."""
    workdir = root / "work"
    workdir.mkdir(parents=True, exist_ok=True)
    return Context(run_id="run", node_id="node", storage=Zones.local(root), workdir=workdir, **more)


def bronze(root: Path, name: str) -> Path:
    """Where a bronze blob of that name lies, its container made."""
    path = root / "bronze" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write(path: Path, pixels: Any, **profile: Any) -> Path:
    """Write pixels (rows x columns, or bands first) as a GeoTIFF at the sample's place."""
    cube = np.atleast_3d(pixels).transpose(2, 0, 1) if np.ndim(pixels) == 2 else np.asarray(pixels)
    count, height, width = cube.shape
    wanted = {"crs": sample.CRS, "transform": PLACE, "tiled": True, "blockxsize": 256, "blockysize": 256, **profile}
    with rasterio.open(
        path, "w", driver="GTiff", width=width, height=height, count=count, dtype=cube.dtype.name, **wanted
    ) as raster:
        raster.write(cube)
    return path


def write_header(path: Path, width: int, height: int, *, tile: int | None = None) -> Path:
    """Write a GeoTIFF that is all claims: a few hundred bytes that announce any size."""
    layout = {322: tile, 323: tile, 324: 8, 325: 8} if tile else {273: 8, 278: height, 279: 8}
    path.write_bytes(tiff_of({256: width, 257: height, 258: 8, 259: 1, 262: 1, 277: 1, **layout}, ON_THE_GROUND))
    return path


def big_header(width: int, height: int, *, tile: int = 512, bands: int = 3) -> tuple[bytes, int]:
    """The beginning of a BigTIFF of uncompressed tiles, each at a place of its own, and the whole file's size."""
    count, tile_bytes, entries = -(-width // tile) * -(-height // tile), tile * tile * bands, 15
    numbers = {256: width, 257: height, 259: 1, 262: 2, 277: bands, 284: 1, 322: tile, 323: tile}
    arrays: dict[int, tuple[str, tuple[float, ...]]] = {
        258: ("H", (8,) * bands),
        325: ("I", (tile_bytes,) * count),
        339: ("H", (1,) * bands),
        **ON_THE_GROUND,
    }
    place = 16 + 8 + 20 * entries + 8
    first_tile = place + 8 * count + sum(struct.calcsize(f"<{len(many)}{code}") for code, many in arrays.values())
    arrays[324] = ("Q", tuple(first_tile + number * tile_bytes for number in range(count)))
    written = {tag: struct.pack("<HHQQ", tag, 4, 1, value) for tag, value in numbers.items()}
    packed = b""
    for tag, (code, many) in arrays.items():
        content, kind = struct.pack(f"<{len(many)}{code}", *many), {"H": 3, "I": 4, "d": 12, "Q": 16}[code]
        held = content.ljust(8, b"\0") if len(content) <= 8 else struct.pack("<Q", place + len(packed))
        written[tag] = struct.pack("<HHQ", tag, kind, len(many)) + held
        packed += content
    head = b"II+\0" + struct.pack("<HHQQ", 8, 0, 16, entries)
    directory = b"".join(written[tag] for tag in sorted(written)) + struct.pack("<Q", 0)
    return head + directory + packed, first_tile + count * tile_bytes


ON_THE_GROUND: dict[int, tuple[str, tuple[float, ...]]] = {
    33550: ("d", (10.0, 10.0, 0.0)),
    33922: ("d", (0.0, 0.0, 0.0, float(sample.WEST_METRES), float(sample.NORTH_METRES), 0.0)),
    34735: ("H", (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32633)),
}
_TYPES = {"d": 12, "H": 3, "I": 4}


def tiff_of(
    numbers: dict[int, int], lists: Mapping[int, tuple[str, tuple[float, ...]]] | None = None, pixels: bytes = b""
) -> bytes:
    """A little-endian TIFF of one directory that claims whatever is wanted, behind the pixels."""
    entries = {tag: struct.pack("<HHII", tag, 4, 1, value) for tag, value in numbers.items()}
    directory_at = 8 + len(pixels)
    values, values_at = b"", directory_at + 2 + 12 * (len(numbers) + len(lists or {})) + 4
    for tag, (code, items) in (lists or {}).items():
        packed = struct.pack(f"<{len(items)}{code}", *items)
        place = packed.ljust(4, b"\0") if len(packed) <= 4 else struct.pack("<I", values_at + len(values))
        entries[tag] = struct.pack("<HHI", tag, _TYPES[code], len(items)) + place
        values += packed
    directory = struct.pack("<H", len(entries)) + b"".join(entries[tag] for tag in sorted(entries)) + bytes(4)
    return b"II*\0" + struct.pack("<I", directory_at) + pixels + directory + values
