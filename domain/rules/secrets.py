"""Removes from web addresses what gives access to their file, wherever addresses are shown. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Final

_ADDRESS: Final = re.compile(r"https?://\S*", re.IGNORECASE)
_USER: Final = re.compile(r"//[^/]*@")


def without_secrets(value: Any) -> Any:
    """Return the same JSON with user, query and fragment removed from every web address in it."""
    match value:
        case str():
            return _ADDRESS.sub(_strip_secrets, value)
        case Mapping():
            return {without_secrets(name): without_secrets(inner) for name, inner in value.items()}
        case list() | tuple():
            return [without_secrets(inner) for inner in value]
        case _:
            return value


def _strip_secrets(found: re.Match[str]) -> str:
    return _USER.sub("//", re.split(r"[?#]", found[0], maxsplit=1)[0])
