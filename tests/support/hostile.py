"""Rasters that mean harm: honest ones, and seeded mutants of them. The same seed, the same bytes."""

import random
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.control import GroundControlPoint

from deployments import sample
from flows.handlers.raster import tiff_directories
from tests.support.rasters import PLACE

SEED = 6
SIDE = 96


@dataclass(frozen=True)
class Sample:
    """One file of the corpus. What is not `honest` may be refused or taken, but must do no harm."""

    name: str
    content: bytes
    honest: bool = False
    ending: str = ".tif"


def honest() -> Iterator[Sample]:
    """Valid files of many kinds: what mutants are made of, and the controls that must pass."""
    pixels = np.random.default_rng(SEED).integers(0, 4000, (SIDE, SIDE), "uint16")
    small = {"blockxsize": 32, "blockysize": 32}
    strips = {"tiled": False, "blockxsize": None, "blockysize": 16}
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "plain": (pixels, {}),
        "strips": (pixels, strips),
        "bigtiff": (pixels, {"BIGTIFF": "YES"}),
        "big-endian": (pixels, {"ENDIANNESS": "BIG"}),
        "deflate": (pixels, {"compress": "deflate", "predictor": 2}),
        "lzw": (pixels, {**strips, "compress": "lzw"}),
        "zstd": (pixels, {"compress": "zstd"}),
        "lzma": (pixels, {"compress": "lzma"}),
        "lerc": (pixels.astype("float32"), {"compress": "lerc"}),
        "webp": (np.stack([pixels % 255] * 3).astype("uint8"), {"compress": "webp", "interleave": "pixel"}),
        "jpeg": (np.stack([pixels % 255] * 3).astype("uint8"), {"compress": "jpeg", "interleave": "pixel"}),
        "planes": (np.stack([pixels] * 4), {"interleave": "band", "compress": "deflate"}),
        "floats": (pixels.astype("float64"), {"compress": "deflate", "predictor": 3}),
        "geographic": (pixels, {"crs": "EPSG:4326", "transform": PLACE.__class__(0.01, 0, 12, 0, -0.01, 47)}),
        "tagged": (pixels, {"tagged": True}),
        "palette": ((pixels % 3).astype("uint8"), {"palette": True}),
        "overviews": (pixels, {"overviews": True, "compress": "deflate"}),
        "cog": (pixels, {"driver": "COG"}),
    }
    for name, (cube, profile) in kinds.items():
        yield Sample(name, _written(cube, small | profile), honest=True)


def _written(pixels: Any, profile: dict[str, Any]) -> bytes:
    cube = np.atleast_3d(pixels).transpose(2, 0, 1) if np.ndim(pixels) == 2 else np.asarray(pixels)
    tagged, palette, overviews = (profile.pop(name, False) for name in ("tagged", "palette", "overviews"))
    count, height, width = cube.shape
    wanted = {"driver": "GTiff", "crs": sample.CRS, "transform": PLACE, "nodata": 0, "tiled": True, **profile}
    if wanted["driver"] == "COG":
        wanted = {key: wanted[key] for key in ("driver", "crs", "transform", "nodata")} | {"blocksize": 128}
    with rasterio.MemoryFile() as memory:
        with memory.open(width=width, height=height, count=count, dtype=cube.dtype.name, **wanted) as raster:
            raster.write(cube)
            if tagged:
                raster.update_tags(AUTHOR="someone", note="<b>bold</b> & more")
                raster.update_tags(1, unit="metre")
            if palette:
                raster.write_colormap(1, {0: (0, 0, 0), 1: (255, 0, 0), 2: (0, 0, 255)})
            if overviews:
                raster.build_overviews([2, 4])
        return bytes(memory.read())


def mutants(count: int, seed: int = SEED) -> Iterator[Sample]:
    """Honest files with something wrong, half of it where the header is. The kind of damage goes round."""
    generator = random.Random(seed)  # noqa: S311 - to be the same each time
    seeds = list(honest())
    for number in range(count):
        origin, damage = seeds[number % len(seeds)], DAMAGES[number % len(DAMAGES)]
        content = bytearray(origin.content)
        for _ in range(generator.choice((1, 1, 2, 4))):
            damage(content, generator)
        yield Sample(f"{number:03}-{damage.__name__}-{origin.name}", bytes(content))


def entries(content: bytes | bytearray) -> list[tuple[int, int, bool, str]]:
    """Where the entries of all readable directories begin, with their tag, whether BigTIFF, and the byte order."""
    form = tiff_directories.FORMS.get(bytes(content[:4]), tiff_directories.Form("<", is_big=False))
    order, is_big = form.order, form.is_big
    found: list[tuple[int, int, bool, str]] = []
    at, seen = struct.unpack_from(f"{order}{'Q' if is_big else 'I'}", content, 8 if is_big else 4)[0], set[int]()
    while at and at not in seen and at + 8 < len(content):
        seen.add(at)
        (count,) = struct.unpack_from(f"{order}{'Q' if is_big else 'H'}", content, at)
        first, step = at + (8 if is_big else 2), 20 if is_big else 12
        end = first + count * step
        if count > 200 or end + 8 > len(content):
            break
        places = range(first, end, step)
        found.extend((place, struct.unpack_from(f"{order}H", content, place)[0], is_big, order) for place in places)
        at = struct.unpack_from(f"{order}{'Q' if is_big else 'I'}", content, end)[0]
    return found


EXTREMES = (0, 1, 2, 7, 255, 65_535, 2**31 - 1, 2**31, 2**32 - 1)


def _entry(content: bytearray, generator: random.Random) -> tuple[int, int, bool, str] | None:
    found = entries(content)
    return generator.choice(found) if found else None


def flip_header(content: bytearray, generator: random.Random) -> None:
    """A bit in one of the directories."""
    if entry := _entry(content, generator):
        content[entry[0] + generator.randrange(12)] ^= 1 << generator.randrange(8)


def flip_anywhere(content: bytearray, generator: random.Random) -> None:
    if len(content) > 8:  # an earlier mutation may have left no more
        content[generator.randrange(8, len(content))] ^= 1 << generator.randrange(8)


def change_type(content: bytearray, generator: random.Random) -> None:
    if entry := _entry(content, generator):
        struct.pack_into(
            f"{entry[3]}H", content, entry[0] + 2, generator.choice((0, 1, 2, 3, 4, 5, 7, 11, 12, 13, 16, 99))
        )


def change_count(content: bytearray, generator: random.Random) -> None:
    if entry := _entry(content, generator):
        struct.pack_into(f"{entry[3]}I", content, entry[0] + 4, generator.choice(EXTREMES))


def change_value(content: bytearray, generator: random.Random) -> None:
    if entry := _entry(content, generator):
        struct.pack_into(f"{entry[3]}I", content, entry[0] + (12 if entry[2] else 8), generator.choice(EXTREMES))


def change_tag(content: bytearray, generator: random.Random) -> None:
    tags = (
        254,
        258,
        259,
        262,
        273,
        277,
        279,
        284,
        317,
        322,
        325,
        330,
        339,
        347,
        33550,
        33922,
        34264,
        34665,
        34735,
        42112,
    )
    if entry := _entry(content, generator):
        struct.pack_into(f"{entry[3]}H", content, entry[0], generator.choice(tags))


def change_dimensions(content: bytearray, generator: random.Random) -> None:
    """Sizes of the picture and its blocks that are absurd, zero or only a little wrong."""
    for place, tag, is_big, order in entries(content):
        if tag in (256, 257, 277, 278, 322, 323) and generator.random() < 0.5:
            kind = struct.unpack_from(f"{order}H", content, place + 2)[0]
            value = generator.choice((*EXTREMES, SIDE - 1, SIDE + 1, SIDE * 1000))
            code, most = ("H", 2**16 - 1) if kind == 3 else ("I", 2**32 - 1)
            struct.pack_into(f"{order}{code}", content, place + (12 if is_big else 8), min(value, most))


def change_compression(content: bytearray, generator: random.Random) -> None:
    methods = (
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        32_771,
        32_773,
        32_946,
        34_661,
        34_676,
        34_712,
        34_887,
        34_925,
        50_000,
        50_001,
        50_002,
    )
    for place, tag, is_big, order in entries(content):
        if tag == tiff_directories.COMPRESSION:
            struct.pack_into(f"{order}H", content, place + (12 if is_big else 8), generator.choice(methods))


def move_blocks(content: bytearray, generator: random.Random) -> None:
    """Offsets and lengths of blocks that lead elsewhere."""
    for place, tag, is_big, order in entries(content):
        if tag in tiff_directories.BLOCK_LISTS:
            at = struct.unpack_from(f"{order}{'Q' if is_big else 'I'}", content, place + (12 if is_big else 8))[0]
            if at + 8 < len(content):
                struct.pack_into(f"{order}I", content, at, generator.choice((*EXTREMES, len(content) - 1)))


def make_a_circle(content: bytearray, generator: random.Random) -> None:
    """The last directory is followed by an earlier one."""
    found = entries(content)
    if not found:
        return
    place, _, is_big, order = found[-1]
    code, at = ("Q", 8) if is_big else ("I", 4)
    (first,) = struct.unpack_from(f"{order}{code}", content, at)
    struct.pack_into(f"{order}{code}", content, place + (20 if is_big else 12), first)


def add_sub_directories(content: bytearray, generator: random.Random) -> None:
    """An entry becomes a list of directories that lead to the first one, or nowhere."""
    if entry := _entry(content, generator):
        place, _, is_big, order = entry
        struct.pack_into(f"{order}HH", content, place, generator.choice((330, 34_665, 34_853, 40_965)), 13)
        struct.pack_into(f"{order}I", content, place + (12 if is_big else 8), generator.choice((8, 16, *EXTREMES)))


def scramble_geokeys(content: bytearray, generator: random.Random) -> None:
    for place, tag, is_big, order in entries(content):
        if tag in (33_550, 33_922, 34_264, 34_735, 34_736, 34_737):
            at = struct.unpack_from(f"{order}{'Q' if is_big else 'I'}", content, place + (12 if is_big else 8))[0]
            for _ in range(4):
                content[min(len(content) - 1, at + generator.randrange(40))] = generator.randrange(256)


def scramble_pixels(content: bytearray, generator: random.Random) -> None:
    """Garbage where packed pixels are."""
    if len(content) > 32:
        at = generator.randrange(len(content) // 2, len(content) - 16)
        content[at : at + 16] = generator.randbytes(16)


def cut(content: bytearray, generator: random.Random) -> None:
    if len(content) > 8:
        del content[generator.randrange(8, len(content)) :]


def overwrite_start(content: bytearray, generator: random.Random) -> None:
    """Other words where the file begins, as of another format."""
    begin = generator.choice((b"II+\0", b"MM\0*", b"\x89PNG", b"<VRT", b"II*\0\0\0\0\0", b"PK\3\4"))
    content[: len(begin)] = begin


Damage = Callable[[bytearray, random.Random], None]
DAMAGES: tuple[Damage, ...] = (
    flip_header, flip_anywhere, change_type, change_count, change_value, change_tag, change_dimensions,
    change_compression, move_blocks, make_a_circle, add_sub_directories, scramble_geokeys, scramble_pixels, cut,
    overwrite_start, flip_header, change_value,
)  # fmt: skip


def by_name(samples: Iterable[Sample]) -> dict[str, Sample]:
    return {sample.name: sample for sample in samples}


def with_control_points(path: Path) -> None:
    """A raster that is placed by control points alone: honest, and easily taken for damaged."""
    points = [GroundControlPoint(row, col, 12 + col / 1e3, 47 - row / 1e3) for row in (0, SIDE) for col in (0, SIDE)]
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        width=SIDE,
        height=SIDE,
        count=1,
        dtype="uint16",
        crs="EPSG:4326",
        nodata=0,
        gcps=points,
    ) as raster:
        raster.write(np.full((1, SIDE, SIDE), 9, "uint16"))
