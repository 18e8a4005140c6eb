"""One line that a GDAL try's process says, read as a stranger's: what everybody behind us can read and keep.

Python reads more than that: texts that no database takes, whole numbers without bound, and nesting so deep that the
next one to read or write it fails far from here. NaN and infinity are let through: pixels may have them for "no data".
"""

import json
from typing import Any, Final

from domain.rules.texts import made_storable

DEEPEST: Final = 64
LARGEST_INTEGER: Final = 2**64  # what a pixel or an attribute of a feature may be
NOT_JSON: Final = "The handler's process said what is not JSON."


class Unheard(ValueError):
    """What was said cannot be taken, in a sentence."""


def said(line: bytes) -> Any:
    """The message, with a mark in place of each letter that cannot be kept."""
    try:
        return _taken(json.loads(line), DEEPEST)
    except Unheard:
        raise
    except (ValueError, RecursionError):
        raise Unheard(NOT_JSON) from None


def _taken(value: Any, depth: int) -> Any:
    if depth == 0:
        raise Unheard(f"The handler's process said what is nested more than {DEEPEST} deep.")
    match value:
        case str():
            return made_storable(value)
        case dict():
            return {made_storable(key): _taken(inner, depth - 1) for key, inner in value.items()}
        case list():
            return [_taken(inner, depth - 1) for inner in value]
        case int() if abs(value) > LARGEST_INTEGER:
            raise Unheard(f"The handler's process said a whole number past {LARGEST_INTEGER:,}.")
        case _:
            return value
