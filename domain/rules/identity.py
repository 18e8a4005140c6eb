"""Identifies assets, and tells whether two submissions are the same."""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any


def asset_id(platform_id: str, refs: Mapping[str, str]) -> str:
    """The asset's identity: its platform and refs, never its version."""
    text = f"{platform_id}|{json.dumps(dict(refs), sort_keys=True)}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def fingerprint(content: Mapping[str, Any]) -> str:
    """Equal for submissions that ask for the same work, whatever the order of their fields."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def ref_faults(refs: Collection[str], required: Collection[str], optional: Collection[str]) -> list[str]:
    """Return a sentence for each ref that is missing or not the platform's."""
    missing = [f"{name} is missing" for name in required if name not in refs]
    known = ", ".join([*required, *optional])
    unknown = [
        f"{name} is not a reference of this platform (it knows {known})"
        for name in refs
        if name not in required and name not in optional
    ]
    return missing + unknown


def parsed_refs(given: Iterable[str]) -> dict[str, str]:
    """Parse references written as name=value; ValueError names one that is malformed or repeated."""
    refs: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair[:100]!r} is not name=value.")
        if refs.setdefault(name, value) != value:
            raise ValueError(f"{name[:100]!r} is given two values; an asset has one.")
    return refs
