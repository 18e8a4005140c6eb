"""Which values of JSON can be kept: PostgreSQL stores no NUL, UTF-8 no half surrogate, JSON no infinity. Pure."""

import math
from collections.abc import Iterator, Mapping
from typing import Any


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


def _is_kept(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
