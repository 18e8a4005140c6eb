"""Optimistic locking: whether a caller who read one state may change another. Pure."""

from enum import Enum


class Precondition(Enum):
    """How an If-Match header relates to the thing as it is now."""

    HOLDS = "holds"
    FAILS = "fails"
    MISSING = "missing"


def etag(lock_version: int) -> str:
    """The entity tag of a lock version."""
    return f'"{lock_version}"'


def check(if_match: str | None, lock_version: int) -> Precondition:
    """Judge the header: a list of tags, or `*` for callers who accept whatever is there. Weak tags never match."""
    if if_match is None or not if_match.strip():
        return Precondition.MISSING
    tags = [tag.strip() for tag in if_match.split(",")]
    return Precondition.HOLDS if "*" in tags or etag(lock_version) in tags else Precondition.FAILS
