"""Tells a storage that did not answer from a file that is damaged. GDAL reports both alike: a block cannot be read."""

from collections.abc import Iterator
from contextlib import contextmanager

from flows.handlers.raster.pieces import Pieces


@contextmanager
def raising_storage_faults(source: Pieces) -> Iterator[None]:
    """Raise why the blob could not be read, whatever was made of it: its sender need not be at fault."""
    try:
        yield
    except Exception:
        if source.fault is not None:
            raise source.fault from None
        raise
    if source.fault is not None:
        raise source.fault
