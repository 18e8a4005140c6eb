"""Which values of JSON can be kept: PostgreSQL stores no NUL, UTF-8 no half surrogate, JSON no infinity. Pure.

And what of a partner's text may stand in a name that others show.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST_SHOWN = 40
_NOT_SHOWN = re.compile(r"[^A-Za-z0-9.+-]+")
_NOWHERE = re.compile(r"[\x00\ud800-\udfff]")


def unstorable_places(value: Any, place: str = "") -> Iterator[str]:
    """Yield every place of a parsed body whose value PostgreSQL or JSON cannot store."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from unstorable_places(key, place)
            yield from unstorable_places(inner, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from unstorable_places(inner, f"{place}[{number}]")
    elif (isinstance(value, str) and not _is_storable(value)) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        yield place


def made_storable(text: str) -> str:
    """Replace each letter that cannot be stored by a mark."""
    return _NOWHERE.sub("\ufffd", text)


def shown(text: str) -> str:
    """Reduce partner's text to characters that can act nowhere in Prefect: no markup, template or control character."""
    return _NOT_SHOWN.sub("_", text)[:LONGEST_SHOWN]


def _is_storable(text: str) -> bool:
    return _NOWHERE.search(text) is None
