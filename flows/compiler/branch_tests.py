"""The short tests of a conditional's branches: `< 100`, `>= 100 and < 500`, `in ["a", "b"]`.

A test is applied to the value of `condition_field`; it holds operators, literals and parentheses, and reads nothing.
"""

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Test = Callable[[Any], bool]

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?)(?![\w.])
          |(?P<text>"[^"]*"|'[^']*')
          |(?P<word>[A-Za-z]+)
          |(?P<sign><=|>=|==|!=|<|>|\(|\)|\[|\]|,))""",
    re.VERBOSE,
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_WORDS = {"true": True, "True": True, "false": False, "False": False, "none": None, "None": None, "null": None}
_MAX_LENGTH = 1000
_MAX_DEPTH = 20


class BadTest(ValueError):
    """The text is not a test."""


@lru_cache(maxsize=1024)
def parse_test(text: str) -> Test:
    """The test as a function of the value; raises BadTest with what was expected."""
    if len(text) > _MAX_LENGTH:
        raise BadTest(f"{len(text)} characters are too many for a branch's condition")
    parser = _Parser(_tokens(text))
    test = parser.either()
    if parser.peek():
        raise BadTest(f"nothing may follow here, found {parser.peek()!r}")
    return test


def _tokens(text: str) -> list[str]:
    tokens, place = [], 0
    stripped = text.rstrip()
    while place < len(stripped):
        found = _TOKEN.match(stripped, place)
        if not found:
            raise BadTest(f"cannot read {stripped[place : place + 20].strip()!r}")
        tokens.append(found.group().strip())
        place = found.end()
    return tokens


class _Parser:
    """Recursive descent: either → both → one → comparison."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.depth = 0

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def take(self, *expected: str) -> str:
        token = self.peek()
        if expected and token not in expected:
            raise BadTest(f"expected {' or '.join(map(repr, expected))}, found {token or 'the end'!r}")
        del self.tokens[:1]
        return token

    def either(self) -> Test:
        tests = [self.both()]
        while self.peek() == "or":
            self.take()
            tests.append(self.both())
        return lambda value: any(test(value) for test in tests)

    def both(self) -> Test:
        tests = [self.one()]
        while self.peek() == "and":
            self.take()
            tests.append(self.one())
        return lambda value: all(test(value) for test in tests)

    def one(self) -> Test:
        if self.peek() != "(":
            return self.comparison()
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise BadTest("parentheses are nested too deeply")
        self.take()
        test = self.either()
        self.take(")")
        return test

    def comparison(self) -> Test:
        sign = self.take(*_COMPARE, "in", "not")
        if sign in _COMPARE:
            compare, literal = _COMPARE[sign], self.literal()
            return lambda value: compare(value, literal)
        if sign == "not":
            self.take("in")
        members = self.members()
        return lambda value: (value in members) == (sign == "in")

    def members(self) -> list[Any]:
        closing = {"[": "]", "(": ")"}[self.take("[", "(")]
        members = []
        while self.peek() != closing:
            members.append(self.literal())
            if self.peek() != closing:
                self.take(",")
        self.take(closing)
        return members

    def literal(self) -> Any:
        token = self.take()
        if token in _WORDS:
            return _WORDS[token]
        if token[:1] in ("'", '"'):
            return token[1:-1]
        try:
            return int(token) if token.lstrip("+-").isdigit() else float(token)
        except ValueError:
            raise BadTest(f"expected a literal, found {token or 'the end'!r}; quote text") from None
