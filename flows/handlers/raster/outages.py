"""Tells a storage that did not answer from a file that is damaged. Knows what GDAL says of its requests, and no more.

GDAL reports both alike: a block cannot be read. But before that it logs each request that failed.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from flows.errors import InvalidInput, Outage
from flows.storage.reading import is_remote

_GDAL: Final = logging.getLogger("rasterio")  # passes on what the library says
_FAILED_REQUEST: Final = re.compile(
    r"CURL error|HTTP (error|response) code|failed with response_code="
    # Answers that broke off are not logged as such. Our own reader had found a TIFF whose blocks lie within the file.
    r"|got \d+ bytes, expected|not recognized as being in a supported file format"
)


def is_failed_request(message: str) -> bool:
    """Whether this is what GDAL says of a request that got no answer, or not the bytes it asked for."""
    return _FAILED_REQUEST.search(message) is not None


class _Listener(logging.Handler):
    """Remembers that a request failed, and not of which address: that one is a secret."""

    heard = False

    def handle(self, record: logging.LogRecord) -> bool:
        self.heard = self.heard or is_failed_request(record.getMessage())
        return True


@contextmanager
def blamed_rightly(name: str, readable: str) -> Iterator[None]:
    """What is refused as damaged while requests failed shows an outage: the sender need not be at fault."""
    if not is_remote(readable):
        yield
        return
    listener, level = _Listener(), _GDAL.level
    _GDAL.addHandler(listener)
    _GDAL.setLevel(logging.INFO)
    try:
        yield
    except InvalidInput:
        if listener.heard:
            raise Outage(f"The storage did not answer while {name!r} was read.") from None
        raise
    finally:
        _GDAL.setLevel(level)
        _GDAL.removeHandler(listener)
