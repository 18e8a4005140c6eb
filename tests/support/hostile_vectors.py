"""Vector files that mean harm: honest ones of all six formats, and seeded mutants. The same seed, the same bytes.

A zipped Shapefile is damaged before it is zipped too: in the archive every flipped bit only breaks a checksum.
"""

import io
import random
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import shapely

from flows.handlers.vector.drivers import pyogrio
from tests.support import vectors
from tests.support.hostile import Sample

SEED = 9
ENDINGS = ("gpkg", "geojson", "zip", "fgb", "parquet", "csv")
HEAD_BYTES = 1024
EXTREMES = (b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0\0\0\xf0\x7f", b"\x80")
NUMBERS = (b"1e999", b"-0", b"NaN", b"99999999999999999999", b"null", b'"', b"[[[[", b"181", b"\xff\xfe", b"")
_DBF_DATE = slice(1, 4)


def honest(folder: Path) -> Iterator[Sample]:
    """Valid files of each format with areas, and with points that have heights."""
    pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": "2026-01-01T00:00:00.000Z"})
    shapes = {
        "areas": vectors.squares(60, side=0.001),
        "points": [shapely.Point(14 + n / 1000, 47, n) for n in range(60)],
    }
    for ending in ENDINGS:
        for kind, geometries in shapes.items():
            path = folder / f"{kind}-{ending}" / f"{kind}.{ending}"
            columns = {"name": pa.array([f"field {n}" for n in range(60)]), "lanes": pa.array(range(60), pa.int32())}
            vectors.write(path, geometries, columns)
            content = _zipped(_parts(path)) if ending == "zip" else path.read_bytes()
            yield Sample(f"{kind}-{ending}", content, honest=True, ending=f".{ending}")


def _parts(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as opened:
        return {entry.filename: opened.read(entry) for entry in opened.infolist()}


def _zipped(parts: dict[str, bytes]) -> bytes:
    """Without the times of its making, in the archive and in the table."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            content = bytearray(part)
            if name.endswith(".dbf"):
                content[_DBF_DATE] = b"\x7e\x01\x01"
            archive.writestr(zipfile.ZipInfo(name), bytes(content))
    return out.getvalue()


def mutants(count: int, seeds: list[Sample], seed: int = SEED) -> Iterator[Sample]:
    """Honest files with something wrong. Format and kind of damage go round, each at its own pace."""
    generator = random.Random(seed)  # noqa: S311 - to be the same each time
    for number in range(count):
        origin, damage = seeds[number % len(seeds)], DAMAGES[(number // len(seeds) + number) % len(DAMAGES)]
        content = _damaged(origin, damage, generator)
        yield Sample(f"{number:03}-{damage.__name__}-{origin.name}", content, ending=origin.ending)


def _damaged(origin: Sample, damage: "Damage", generator: random.Random) -> bytes:
    if origin.ending == ".zip" and generator.random() < 0.7:
        with zipfile.ZipFile(io.BytesIO(origin.content)) as opened:
            parts = {entry.filename: opened.read(entry) for entry in opened.infolist()}
        name = generator.choice([name for name in parts if name.endswith((".shp", ".shx", ".dbf"))])
        return _zipped(parts | {name: _changed(parts[name], damage, generator)})
    return _changed(origin.content, damage, generator)


def _changed(content: bytes, damage: "Damage", generator: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(generator.choice((1, 1, 2, 4))):
        damage(changed, generator)
    return bytes(changed)


def _place(content: bytearray, generator: random.Random) -> int:
    """Half of them where the header is, and some where formats keep their directory: at the end."""
    where = generator.random()
    if where < 0.5:
        return generator.randrange(min(len(content), HEAD_BYTES)) if content else 0
    if where < 0.75 and len(content) > HEAD_BYTES:
        return generator.randrange(len(content) - HEAD_BYTES, len(content))
    return generator.randrange(len(content)) if content else 0


def flip(content: bytearray, generator: random.Random) -> None:
    if content:
        content[_place(content, generator)] ^= 1 << generator.randrange(8)


def put_extreme(content: bytearray, generator: random.Random) -> None:
    """A number that is as large, as small or as little a number as can be."""
    extreme, at = generator.choice(EXTREMES), _place(content, generator)
    content[at : at + len(extreme)] = extreme


def scramble(content: bytearray, generator: random.Random) -> None:
    at = _place(content, generator)
    content[at : at + 16] = generator.randbytes(16)


def cut(content: bytearray, generator: random.Random) -> None:
    del content[_place(content, generator) :]


def take_out(content: bytearray, generator: random.Random) -> None:
    at = _place(content, generator)
    del content[at : at + generator.choice((1, 7, 100))]


def repeat(content: bytearray, generator: random.Random) -> None:
    at = _place(content, generator)
    content[at:at] = content[at : at + generator.choice((1, 50, 400))]


def change_number(content: bytearray, generator: random.Random) -> None:
    """In text, a number becomes something else; elsewhere its digits are some bytes among others."""
    found = list(re.finditer(rb"-?[0-9]+(\.[0-9]+)?", content))
    if found:
        start, end = generator.choice(found).span()
        content[start:end] = generator.choice(NUMBERS)


def overwrite_start(content: bytearray, generator: random.Random) -> None:
    """Another format's first bytes."""
    begin = generator.choice((b"SQLite format 3\0", b"PK\3\4", b"fgb\3fgb", b"PAR1", b"{", b"<OGRVRT", b"\x89HDF"))
    content[: len(begin)] = begin


Damage = Callable[[bytearray, random.Random], None]
DAMAGES: tuple[Damage, ...] = (
    flip, put_extreme, scramble, cut, take_out, repeat, change_number, overwrite_start, flip, put_extreme, change_number
)  # fmt: skip
