"""Rasters that mean harm, made by hand: they want another file or an address opened, or unpack to far too much."""

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import rasterio

from deployments import sample
from flows.handlers.raster import tiff_directories
from tests.support.hostile import SIDE, Sample, entries
from tests.support.rasters import ON_THE_GROUND, PLACE, tiff_of


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
    return _with_tag(_tagged("", {"a": "x"}), tiff_directories.METADATA, xml)


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
    for place, tag, _, order in entries(content):
        if tag == wanted:
            struct.pack_into(
                f"{order}HHII", changed, place, tag, kind, len(data) // (2 if kind == 3 else 1), len(changed)
            )
            return bytes(changed + data)
    raise LookupError(f"no tag {wanted}")
