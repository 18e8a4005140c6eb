"""What the console decides without asking anybody: which requests may change something, what a filter means. Pure."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import urlsplit

Shown = Literal["waiting", "working", "failed", "rejected", "approved", "all"]
SHOWN: tuple[Shown, ...] = get_args(Shown)
HARMLESS = frozenset({"GET", "HEAD"})
LONGEST_WORDS = 100
FIRST_PAGE = "/console/"


@dataclass(frozen=True)
class Filter:
    """Which versions the queue shows."""

    shown: Shown = "waiting"
    platform: str = ""
    data_type: str = ""
    words: str = ""


def filter_of(query: Mapping[str, str]) -> Filter:
    """Return the filter that an address asks for, without parameters that make no sense."""
    shown = query.get("show", "waiting")
    data_type = query.get("type", "")
    return Filter(
        shown=next((known for known in SHOWN if known == shown), "waiting"),
        platform=query.get("platform", "")[:63],
        data_type=data_type if data_type in {"raster", "vector"} else "",
        words=query.get("q", "").strip().replace("\0", "")[:LONGEST_WORDS],
    )


def refusal(method: str, headers: Mapping[str, str]) -> str | None:
    """Return why a changing request is refused: its headers must say that a page of ours sent it.

    Browsers say where a request comes from, and no page can make them say otherwise. Headers' names are in lower case.
    """
    if method in HARMLESS:
        return None
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return f"It comes from another site ({site})."
    origin = headers.get("origin")
    if origin is None:
        return None if site == "same-origin" else "It does not say which site it comes from."
    host = headers.get("host", "")
    if not host or _netloc(origin) != host:
        return "It comes from a page of another origin."
    return None


def is_token(expected: str, given: str) -> bool:
    """Whether a form carries the token of its session."""
    return hmac.compare_digest(expected.encode(), given.encode())


def place_within(address: str) -> str:
    """Return the address if it lies within the console, else the console's first page."""
    path = address.partition("?")[0]
    inside = path == "/console" or path.startswith("/console/")
    return address if inside and "\\" not in address and address.isprintable() else FIRST_PAGE


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
