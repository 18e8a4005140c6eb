"""Reads a source once for its checksum, and decides how tries read its pixels. Light: knows storage and no GDAL."""

import hashlib
from dataclasses import dataclass, replace
from typing import Final

from domain.rules.sources import is_address
from flows.handlers.context import Context
from flows.handlers.origins import shown
from flows.handlers.raster.declarations import Reading
from flows.handlers.raster.tiff_directories import TILE_WIDTH, BeyondLimit, Damaged, NotTiff, TiffFile
from flows.handlers.raster.tile_declarations import BlobToMountParams, BlobToMountResult
from flows.storage import LocalStore

_MEGABYTE: Final = 1024**2
# One answer of this size comes sooner than the many small ones that a raster is otherwise read by.
SMALL_BYTES: Final = 64 * _MEGABYTE
# More than this is never copied to a try's own disk.
LARGEST_COPY_BYTES: Final = 20 * 1024 * _MEGABYTE


@dataclass(frozen=True)
class ReadingDecision:
    """How pixels are read: by ranges where they lie, or from a whole copy on the try's own disk."""

    reading: Reading
    reason: str


def decide(size_bytes: int, *, is_remote: bool, is_tiled: bool) -> ReadingDecision:
    """Ranges serve a raster in tiles; rows that run through the whole raster would be fetched again and again."""
    if not is_remote:
        return ReadingDecision("ranges", "It lies where it can be read directly.")
    if size_bytes <= SMALL_BYTES:
        return ReadingDecision("whole", f"{size_bytes / _MEGABYTE:,.1f} MB come sooner in one piece.")
    if is_tiled:
        return ReadingDecision("ranges", "It is stored in tiles: only what is needed is fetched.")
    if size_bytes > LARGEST_COPY_BYTES:
        return ReadingDecision("ranges", f"{size_bytes / _MEGABYTE:,.0f} MB are too many for a copy.")
    return ReadingDecision("whole", "It is stored in rows, which would be fetched many times over.")


def blob_to_mount(params: BlobToMountParams, context: Context) -> BlobToMountResult:
    """The source's checksum, and the decision. What lies at an address is fetched into quarantine first."""
    bronze, source = context.storage.bronze, params.source
    if is_address(source):
        from flows.handlers import quarantine

        source = quarantine.fetch(source, context)
    readable = bronze.readable_path(source)
    size_bytes = bronze.size_bytes(source) or 0
    sha256, head = _read(source, size_bytes, context)
    decision = decide(size_bytes, is_remote="://" in readable, is_tiled=lies_in_tiles(head))
    return BlobToMountResult(
        source=source,
        origin=shown(params.source),
        size_mb=size_bytes / _MEGABYTE,
        sha256=sha256,
        reading=decision.reading,
        reason=decision.reason,
    )


def at_hand(name: str, reading: Reading, context: Context) -> Context:
    """Return the context in which the source is read as decided: in place, or from a copy in the try's own folder."""
    if reading == "ranges":
        return context
    own = LocalStore(context.workdir / "source")
    if own.size_bytes(name) is None:
        for chunk in context.storage.bronze.chunks(name):
            context.raise_if_stopping()
            own.append(name, chunk)
    return replace(context, storage=replace(context.storage, bronze=own))


def lies_in_tiles(head: bytes) -> bool:
    """Whether a TIFF that begins so says that it is stored in tiles. False where its directory lies further on."""
    try:
        entries = next(TiffFile.of(lambda at, length: head[at : at + length], len(head)).directories(), {})
    except (NotTiff, Damaged, BeyondLimit):
        return False
    return TILE_WIDTH in entries


def _read(name: str, size_bytes: int, context: Context) -> tuple[str, bytes]:
    """Return the source's checksum and its first bytes."""
    digest, done, head = hashlib.sha256(), 0, b""
    for chunk in context.storage.bronze.chunks(name):
        context.raise_if_stopping()
        head = head or chunk
        digest.update(chunk)
        done += len(chunk)
        context.progress(done / max(size_bytes, done), f"{done / _MEGABYTE:,.0f} MB read")
    return digest.hexdigest(), head
