"""Names and types of columns: the sender's names are data, the table's are generated from them. Pure."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

MAX_NAME: Final = 48
# Ours in every table, and the words that ask for features in an address: a column of that name could not be asked for.
RESERVED: Final = frozenset(
    {"fid", "geom", "tipg_id", "tipg_geom", "version", "f", "ids", "datetime", "bbox", "properties", "filter"}
    | {"limit", "offset", "sortby", "simplify", "token", "crs"}
)
_NOT_ALLOWED: Final = re.compile(r"[^a-z0-9]+")


def identifiers(names: Sequence[str]) -> list[str]:
    """Return a safe and unique identifier for each of the sender's names, as close to it as its letters allow."""
    taken: set[str] = set()
    made = []
    for number, name in enumerate(names, start=1):
        wanted = _identifier(name) or f"c_{number:03}"
        free = next(each for each in _candidates(wanted) if each not in taken and each not in RESERVED)
        taken.add(free)
        made.append(free)
    return made


def _identifier(name: str) -> str:
    """The name in small Latin letters, digits and underscores; empty where none of it can be written so."""
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode().lower()
    word = _NOT_ALLOWED.sub("_", plain).strip("_")[:MAX_NAME].rstrip("_")
    return f"c_{word}" if word[:1].isdigit() else word


def _candidates(wanted: str) -> "list[str]":
    return [wanted, *(f"{wanted}_{number}" for number in range(2, 2000))]
