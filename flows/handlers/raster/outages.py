"""Distinguishes a storage that did not answer from a damaged file, which GDAL reports alike."""

from collections.abc import Iterator
from contextlib import contextmanager

from flows.handlers.raster.pieces import Pieces


@contextmanager
def raising_storage_faults(source: Pieces) -> Iterator[None]:
    """Raise the storage's fault instead of whatever a library made of it: the sender need not be at fault."""
    try:
        yield
    except Exception:
        if source.fault is not None:
            raise source.fault from None
        raise
    if source.fault is not None:
        raise source.fault
