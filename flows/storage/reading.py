"""How GDAL reads what `Store.readable_path` gave: a file, or one URL. Knows GDAL by its options only."""

from typing import Final
from urllib.parse import urlsplit

# A blob is asked for by ranges, once more where the account is busy, and never for what lies beside it.
_REMOTE: Final = {
    "CPL_VSIL_CURL_USE_HEAD": "NO",
    "GDAL_HTTP_CONNECTTIMEOUT": "10",
    "GDAL_HTTP_TIMEOUT": "60",
    "GDAL_HTTP_MAX_RETRY": "3",
    "GDAL_HTTP_RETRY_DELAY": "0.5",
    "GDAL_HTTP_MULTIRANGE": "YES",
    "GDAL_HTTP_MERGE_CONSECUTIVE_RANGES": "YES",
    "CPL_CURL_VERBOSE": "NO",
}


def is_remote(readable: str) -> bool:
    """Whether this is a URL, and so a secret."""
    return urlsplit(readable).scheme in {"https", "http"}


def gdal_name(readable: str) -> str:
    """What GDAL opens."""
    return f"/vsicurl/{readable}" if is_remote(readable) else readable


def gdal_options(readable: str) -> dict[str, str]:
    """GDAL's options for reading this and nothing else from a network."""
    if not is_remote(readable):
        return {}
    return {**_REMOTE, "CPL_VSIL_CURL_ALLOWED_FILENAME": gdal_name(readable)}
