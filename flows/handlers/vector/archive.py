"""Takes one Shapefile out of a zip that nobody trusts. Its names choose what is read and never where it is written."""

import re
import stat
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from flows.handlers.errors import InvalidInput
from flows.storage.protocol import CHUNK_BYTES, Check, go_on

PARTS: Final = (".shp", ".shx", ".dbf", ".prj", ".cpg")
NEEDED: Final = (".shp", ".shx", ".dbf")
MAX_ENTRIES: Final = 1_000
MAX_BYTES: Final = 16 * 1024**3
# Coordinates and padded text pack well, but not like this: beyond a small archive it is a bomb.
MAX_EXPANSION: Final = 200
SMALL_BYTES: Final = 64 * 1024**2
_DRIVE: Final = re.compile(r"[A-Za-z]:")


def extract(archive: Path, folder: Path, layer: str | None, name: str, check: Check = go_on) -> tuple[Path, str]:
    """Write the parts of one Shapefile as `source.*` into the folder; gives its path and the layer's name."""
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = opened.infolist()
            refuse_unsafe(entries, archive.stat().st_size, name)
            parts = chosen(entries, layer, name)
            for suffix, entry in parts.items():
                _write(opened, entry, folder / f"source{suffix}", check)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise InvalidInput(f"{name!r} is not a zip archive that can be read: it is damaged or encrypted.") from error
    return folder / "source.shp", PurePosixPath(parts[".shp"].filename).stem


def refuse_unsafe(entries: Iterable[zipfile.ZipInfo], size_bytes: int, name: str) -> None:
    """Judge the archive by its directory alone, before anything is unpacked."""
    listed = list(entries)
    if len(listed) > MAX_ENTRIES:
        raise InvalidInput(f"{name!r} holds {len(listed):,} files; the limit is {MAX_ENTRIES:,}. Send one layer alone.")
    for entry in listed:
        if _leads_out(entry.filename) or stat.S_ISLNK(entry.external_attr >> 16):
            raise InvalidInput(f"{name!r} holds an entry that leads out of the archive. Zip the files themselves.")
    total = sum(entry.file_size for entry in listed)
    if total > MAX_BYTES or total > max(SMALL_BYTES, size_bytes * MAX_EXPANSION):
        raise InvalidInput(
            f"{name!r} would grow from {size_bytes:,} to {total:,} bytes. The limit is {MAX_EXPANSION} times its "
            f"size and {MAX_BYTES:,} bytes: it is damaged, or mostly empty."
        )


def _leads_out(filename: str) -> bool:
    parts = re.split(r"[/\\]", filename)
    return filename.startswith(("/", "\\")) or ".." in parts or bool(_DRIVE.match(filename)) or "\0" in filename


def chosen(entries: Iterable[zipfile.ZipInfo], layer: str | None, name: str) -> dict[str, zipfile.ZipInfo]:
    """Return the parts of the wanted Shapefile by their endings."""
    found = [entry for entry in entries if not entry.is_dir() and not entry.filename.startswith("__MACOSX/")]
    shapes = {PurePosixPath(each.filename).stem: each for each in found if each.filename.lower().endswith(".shp")}
    if not shapes:
        raise InvalidInput(f"{name!r} holds no Shapefile: nothing in it ends in .shp. Zip .shp, .shx, .dbf and .prj.")
    if layer is None and len(shapes) > 1:
        raise InvalidInput(f"{name!r} holds several Shapefiles: name one as `layer`: {listed_names(shapes)}.")
    shape = next(iter(shapes.values())) if layer is None else shapes.get(layer)
    if shape is None:
        raise InvalidInput(f"{name!r} holds no layer {layer!r}. It holds {listed_names(shapes)}.")
    base = shape.filename[: -len(".shp")].lower()
    parts = {suffix: each for each in found for suffix in PARTS if each.filename.lower() == base + suffix}
    if missing := [suffix for suffix in NEEDED if suffix not in parts]:
        raise InvalidInput(f"{name!r} lacks {' and '.join(missing)} beside {shape.filename!r}. Zip all its parts.")
    return parts


def listed_names(names: Iterable[str]) -> str:
    """A few names for a message."""
    some = [repr(each[:60]) for each in names]
    return ", ".join(some[:10]) + (f" and {len(some) - 10} more" if len(some) > 10 else "")


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, check: Check) -> None:
    """Unpack one part. The directory's sizes are claims: what is longer than its claim is an error of the library's."""
    with archive.open(entry) as packed, path.open("wb") as out:
        while piece := packed.read(CHUNK_BYTES):
            check(out.tell())
            out.write(piece)
    if path.stat().st_size != entry.file_size:
        raise zipfile.BadZipFile("a part is not as long as the archive says")
