"""Files that mean harm: seeded mutants of honest rasters, and attacks by hand. The same seed, the same bytes."""

import json
import random
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.control import GroundControlPoint

from deployments import sample
from flows.handlers.raster import tiff
from tests.support.rasters import ON_THE_GROUND, PLACE, tiff_of

SEED = 6
SIDE = 96


@dataclass(frozen=True)
class Sample:
    """One file of the corpus. What is not `honest` may be refused or taken, but must do no harm."""

    name: str
    content: bytes
    honest: bool = False


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


def _entries(content: bytes | bytearray) -> list[tuple[int, int, bool, str]]:
    """Where the entries of all readable directories begin, with their tag, whether BigTIFF, and the byte order."""
    order, is_big = tiff._MAGIC.get(bytes(content[:4]), ("<", False))
    found: list[tuple[int, int, bool, str]] = []
    at, seen = struct.unpack_from(f"{order}{'Q' if is_big else 'I'}", content, 8 if is_big else 4)[0], set[int]()
    while at and at not in seen and at + 8 < len(content):
        seen.add(at)
        (entries,) = struct.unpack_from(f"{order}{'Q' if is_big else 'H'}", content, at)
        first, step = at + (8 if is_big else 2), 20 if is_big else 12
        end = first + entries * step
        if entries > 200 or end + 8 > len(content):
            break
        places = range(first, end, step)
        found.extend((place, struct.unpack_from(f"{order}H", content, place)[0], is_big, order) for place in places)
        at = struct.unpack_from(f"{order}{'Q' if is_big else 'I'}", content, end)[0]
    return found


EXTREMES = (0, 1, 2, 7, 255, 65_535, 2**31 - 1, 2**31, 2**32 - 1)


def _entry(content: bytearray, generator: random.Random) -> tuple[int, int, bool, str] | None:
    entries = _entries(content)
    return generator.choice(entries) if entries else None


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
    for place, tag, is_big, order in _entries(content):
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
    for place, tag, is_big, order in _entries(content):
        if tag == tiff.COMPRESSION:
            struct.pack_into(f"{order}H", content, place + (12 if is_big else 8), generator.choice(methods))


def move_blocks(content: bytearray, generator: random.Random) -> None:
    """Offsets and lengths of blocks that lead elsewhere."""
    for place, tag, is_big, order in _entries(content):
        if tag in tiff.BLOCK_LISTS:
            at = struct.unpack_from(f"{order}{'Q' if is_big else 'I'}", content, place + (12 if is_big else 8))[0]
            if at + 8 < len(content):
                struct.pack_into(f"{order}I", content, at, generator.choice((*EXTREMES, len(content) - 1)))


def make_a_circle(content: bytearray, generator: random.Random) -> None:
    """The last directory is followed by an earlier one."""
    entries = _entries(content)
    if not entries:
        return
    place, _, is_big, order = entries[-1]
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
    for place, tag, is_big, order in _entries(content):
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


def attacks(secret: Path, url: str) -> Iterator[Sample]:
    """Files that want another file or an address opened, and files that unpack to far too much."""
    yield from _disguised(secret, url)
    yield from _references(secret, url)
    yield from _definitions(secret, url)
    yield from _bombs()


def _disguised(secret: Path, url: str) -> Iterator[Sample]:
    """Other formats under a raster's name, each of which reads what it names."""
    for number, target in enumerate((str(secret), f"/vsicurl/{url}/a.tif", f"/vsicurl?header_file={secret}&url={url}")):
        yield Sample(f"vrt-{number}", vrt_of(target))
    raw = vrt_of(str(secret)).replace(b'band="1"', b'band="1" subClass="VRTRawRasterBand"')
    yield Sample("vrt-raw", raw.replace(b"<SimpleSource>", b"").replace(b"</SimpleSource>", b""))
    window = "<DataWindow><SizeX>9</SizeX><SizeY>9</SizeY></DataWindow>"
    wms = f'<GDAL_WMS><Service name="TMS"><ServerUrl>{url}/${{z}}</ServerUrl></Service>{window}</GDAL_WMS>'
    yield Sample("wms", wms.encode())
    source = f"<CachedSource><Source>{secret}</Source></CachedSource>"
    mrf = f"<MRF_META>{source}<Raster><Size x='9' y='9' c='1'/></Raster></MRF_META>"
    yield Sample("mrf", mrf.encode())
    yield Sample("gti", f"<GDALTileIndexDataset><IndexDataset>{secret}</IndexDataset></GDALTileIndexDataset>".encode())
    stac = {"type": "FeatureCollection", "stac_version": "1.0.0", "features": [{"assets": {"a": {"href": url}}}]}
    yield Sample("stacit", json.dumps(stac).encode())
    yield Sample("wcs", f"<WCS_GDAL><ServiceURL>{url}?</ServiceURL><CoverageName>a</CoverageName></WCS_GDAL>".encode())
    yield Sample("pdf", b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\nendobj\n")
    yield Sample("zip", b"PK\3\4" + bytes(60))
    yield Sample("name-only", f"/vsicurl/{url}/a.tif".encode())


def vrt_of(target: str) -> bytes:
    return (
        '<VRTDataset rasterXSize="96" rasterYSize="96"><SRS>EPSG:32633</SRS>'
        "<GeoTransform>304640, 10, 0, 5236800, 0, -10</GeoTransform>"
        '<VRTRasterBand dataType="UInt16" band="1"><SimpleSource>'
        f'<SourceFilename relativeToVRT="0">{target}</SourceFilename><SourceBand>1</SourceBand></SimpleSource>'
        "</VRTRasterBand></VRTDataset>"
    ).encode()


def _references(secret: Path, url: str) -> Iterator[Sample]:
    """Real GeoTIFFs whose metadata names what GDAL would open by itself."""
    for number, target in enumerate((str(secret), f"/vsicurl/{url}/a.tif", vrt_of(str(secret)).decode(), f"WMS:{url}")):
        yield Sample(f"overview-file-{number}", _tagged("OVERVIEWS", {"OVERVIEW_FILE": target}))
        yield Sample(f"geolocation-{number}", _tagged("GEOLOCATION", {"X_DATASET": target, "Y_DATASET": target}))
    yield Sample("subdatasets", _tagged("SUBDATASETS", {"SUBDATASET_1_NAME": str(secret)}))
    for number, domain in enumerate(("overviews", "&#79;VERVIEWS", " OVERVIEWS ")):
        item = f'<GDALMetadata><Item name="OVERVIEW_FILE" domain="{domain}">{secret}</Item></GDALMetadata>'
        yield Sample(f"overview-spelled-{number}", _with_metadata(item))
    child = f'<GDALMetadata><Item name="OVERVIEW_FILE"><domain>OVERVIEWS</domain>{secret}</Item></GDALMetadata>'
    yield Sample("overview-child", _with_metadata(child))
    entity = (
        f'<!DOCTYPE a [<!ENTITY s SYSTEM "file://{secret}">]><GDALMetadata><Item name="a">&s;</Item></GDALMetadata>'
    )
    yield Sample("metadata-entity", _with_metadata(entity))
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "lol"}">' for n in range(9))
    yield Sample("metadata-laughs", _with_metadata(f"<!DOCTYPE a [{laughs}]><GDALMetadata>&l8;</GDALMetadata>"))
    yield Sample("metadata-deep", _with_metadata("<GDALMetadata>" * 3000))


def _definitions(secret: Path, url: str) -> Iterator[Sample]:
    """A CRS that is an address, a file, or a definition which names grids to read."""
    grids = f"+proj=pipeline +step +proj=hgridshift +grids={secret}"
    places = (
        *(url, f"/vsicurl/{url}/a.prj", str(secret), f"+proj=utm +zone=33 +nadgrids={secret}", f"+init={secret}:1"),
        *(grids, "urn:ogc:def:crs:EPSG::32633", "AUTO:42001,9,50"),
    )
    for number, definition in enumerate(places):
        yield Sample(f"crs-citation-{number}", _with_citation(definition))
    wkt = (
        'PROJCS["a",GEOGCS["b",DATUM["c",SPHEROID["d",6378137,298.25]],PRIMEM["e",0],UNIT["degree",0.0174532925199433]],'
        'PROJECTION["Transverse_Mercator"],PARAMETER["central_meridian",15],UNIT["metre",1],'
        f'EXTENSION["PROJ4","+proj=utm +zone=33 +nadgrids={secret} +wktext"]]'
    )
    yield Sample("crs-wkt-grids", _with_citation(f"ESRI PE String = {wkt}"))


def _bombs() -> Iterator[Sample]:
    """Little that unpacks to much: a block too large, too many blocks, and as much as is just allowed."""
    side, tile = 12_288, 1024
    yield Sample("bomb-strip", _repeated(side, side, 8, zlib.compress(bytes(side * side), 1), 1))
    for method, code in {"deflate": 8, "lzma": 34_925, "zstd": 50_000, "lzw": 5, "lerc": 34_887}.items():
        block = _block(method, tile)
        yield Sample(f"bomb-tiles-{method}", _repeated(tile * 64, tile, code, block, 64 * 64))
        yield Sample(f"bomb-allowed-{method}", _repeated(tile * 8, tile, code, block, 8 * 8))
    yield Sample("bomb-allowed-strip", _repeated(8192, 8192, 8, zlib.compress(bytes(2**26), 1), 1))
    for name, numbers in {
        "tile-zero": {322: 0, 323: 0, 324: 8, 325: 8},
        "tile-huge": {322: 2**31, 323: 2**31, 324: 8, 325: 8},
        "tile-odd": {322: 7, 323: 2**31 - 16, 324: 8, 325: 8},
        "strip-huge": {273: 8, 278: 2**32 - 1, 279: 2**32 - 1},
        "bands-many": {277: 65_535, 273: 8, 278: 1, 279: 8},
        "side-huge": {256: 2**31, 273: 8, 278: 2**31, 279: 8},
        "blocks-many": {322: 16, 323: 16, 324: 8, 325: 8},
    }.items():
        yield Sample(name, tiff_of({256: 65_535, 257: 65_535, 258: 8, 259: 8, 262: 1, **numbers}))


def _block(method: str, side: int) -> bytes:
    """One packed tile of zeros, as GDAL writes it."""
    layout = {"tiled": True, "blockxsize": side, "blockysize": side, "compress": method}
    with rasterio.MemoryFile() as memory:
        with memory.open(
            driver="GTiff", width=side, height=side, count=1, dtype="uint8", crs=sample.CRS, transform=PLACE, **layout
        ) as raster:
            raster.write(np.zeros((1, side, side), "uint8"))
        with memory.open() as raster:
            offset, length = (
                int(raster.get_tag_item(f"BLOCK_{what}_0_0", "TIFF", bidx=1)) for what in ("OFFSET", "SIZE")
            )
        return bytes(memory.read())[offset : offset + length]


def _repeated(side: int, tile: int, method: int, block: bytes, count: int) -> bytes:
    """A square raster on the ground whose blocks are all one and the same."""
    numbers = {256: side, 257: side, 258: 8, 259: method, 262: 1, 277: 1, 339: 1, 322: tile, 323: tile}
    return tiff_of(numbers, {**ON_THE_GROUND, 324: ("I", (8,) * count), 325: ("I", (len(block),) * count)}, block)


def _tagged(domain: str, items: dict[str, str]) -> bytes:
    """An honest raster with GDAL's metadata of that domain."""
    pixels = np.full((1, SIDE, SIDE), 9, "uint16")
    with rasterio.MemoryFile() as memory:
        with memory.open(
            driver="GTiff", width=SIDE, height=SIDE, count=1, dtype="uint16", crs=sample.CRS, transform=PLACE, nodata=0
        ) as raster:
            raster.write(pixels)
            raster.update_tags(ns=domain, **items)
        return bytes(memory.read())


def _with_metadata(xml: str) -> bytes:
    """An honest raster whose tag of GDAL's metadata is replaced by this text."""
    return _with_tag(_tagged("", {"a": "x"}), tiff.METADATA, xml)


def _with_citation(text: str) -> bytes:
    """An honest raster whose geographic parameters begin with this text: where names of CRSs are kept."""
    with rasterio.MemoryFile() as memory:
        with memory.open(
            driver="GTiff", width=SIDE, height=SIDE, count=1, dtype="uint16", transform=PLACE,
            crs="+proj=laea +lat_0=47.1 +lon_0=12.6 +ellps=WGS84",
        ) as raster:  # fmt: skip
            raster.write(np.full((1, SIDE, SIDE), 9, "uint16"))
        content = bytes(memory.read())
    keys = [1, 1, 0, 3, 1024, 0, 1, 1, 3072, 0, 1, 32_767, 3073, 34_737, len(text) + 1, 0]
    content = _with_tag(content, 34_737, text + "|")
    return _with_tag(content, 34_735, struct.pack(f"<{len(keys)}H", *keys), 3)


def _with_tag(content: bytes, wanted: int, value: str | bytes, kind: int = 2) -> bytes:
    """The same file with another value of one tag, written at its end."""
    changed = bytearray(content)
    data = value.encode() + b"\0" if isinstance(value, str) else value
    data = data.ljust(8, b"\0")
    for place, tag, _, order in _entries(content):
        if tag == wanted:
            struct.pack_into(
                f"{order}HHII", changed, place, tag, kind, len(data) // (2 if kind == 3 else 1), len(changed)
            )
            return bytes(changed + data)
    raise LookupError(f"no tag {wanted}")


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
