"""Judges what a body looks like before the application sees any of it. Pure."""

import re
from collections.abc import Callable, Iterable

from gateway.errors import NotUtf8, TooDeep

# A string that never ends is one too: nothing is looked at twice, whatever somebody sends.
STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
PAIRS = re.compile(rb"\[\]|\{\}")


def judge_of(max_depth: int) -> Callable[[Iterable[tuple[bytes, bytes]], bytes], None]:
    """Return a judge that refuses JSON that is not UTF-8 or is nested too deep.

    What does not say what it is counts as JSON; other text may nest as it likes.
    """

    def judge(headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        if not may_be_json(headers):
            return
        if not is_utf8(body):
            raise NotUtf8("Send JSON in UTF-8 (RFC 8259).")
        if is_deeper(body, max_depth):
            raise TooDeep(f"A request body may nest lists and objects at most {max_depth} deep.")

    return judge


def may_be_json(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether any parser might read a body with these headers as JSON."""
    types = [value for name, value in headers if name.lower() == b"content-type"]
    return not types or any(b"json" in value.lower() for value in types)


def is_utf8(body: bytes) -> bool:
    """Whether a parser would take this JSON for UTF-8, and rightly so.

    Python's tells UTF-16 and UTF-32 by their marks, which are never UTF-8, or by the zeros beside the first letters.
    """
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return 0 not in body[:4]


def is_deeper(body: bytes, most: int) -> bool:
    """Whether lists and objects are nested deeper than allowed. An unclosed bracket counts as a level.

    Done by whole passes over the bytes, one a level: a parser would have to be trusted with what is judged here.
    """
    if body.count(b"[") + body.count(b"{") <= most:
        return False
    rest = STRINGS.sub(b"", body).translate(None, NO_BRACKETS)
    for _ in range(most):
        shorter = PAIRS.sub(b"", rest)
        if shorter == rest:
            return rest.count(b"[") + rest.count(b"{") > most
        rest = shorter
    return bool(rest)
