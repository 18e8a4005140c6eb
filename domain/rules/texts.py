"""Which values of JSON can be kept: PostgreSQL stores no NUL, UTF-8 no half surrogate, JSON no infinity. Pure."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

_NOWHERE = re.compile(r"[\x00\ud800-\udfff]")


def unkept(value: Any, place: str = "") -> Iterator[str]:
    """Where in a parsed body something stands that could be stored nowhere."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from unkept(key, place)
            yield from unkept(inner, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from unkept(inner, f"{place}[{number}]")
    elif (isinstance(value, str) and not _is_kept(value)) or (isinstance(value, float) and not math.isfinite(value)):
        yield place


def kept(text: str) -> str:
    """The text as it can be kept: with a mark in place of each letter that cannot."""
    return _NOWHERE.sub("\ufffd", text)


def _is_kept(text: str) -> bool:
    return _NOWHERE.search(text) is None
