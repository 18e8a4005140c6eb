"""Patterns without backtracking: the same answers as `re`, in bounded time."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.compiler.patterns import MAX_TEXT, BadPattern, compile_pattern, found_in
from tests.flows.compiler.support import faults_of

_PIECES = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "[ab]",
        "[^a]",
        "[a-c]",
        r"\d",
        r"\w",
        r"\s",
        r"[\w-]",
        "(a|bc)",
        "(?:ab)",
        "^",
        "$",
        "|",
        "\n",
        r"\-",
    ]
)
_REPEATS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "*?", "+?"])
_ATOMS = st.tuples(_PIECES.filter(lambda piece: piece not in "^$|"), _REPEATS).map("".join)
_PATTERNS = st.lists(_ATOMS | st.sampled_from(["^", "$", "|", r"\A", r"\Z"]), max_size=6).map("".join)


@settings(max_examples=400, deadline=None)
@given(_PATTERNS, st.text(st.sampled_from("abc1- \n_"), max_size=12))
def test_answers_of_patterns_equal_those_of_re(pattern: str, text: str) -> None:
    assert found_in(pattern, text) == (re.search(pattern, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^EPSG:[0-9]{4,6}$", "EPSG:4326", "EPSG:43"),
        ("^[0-9a-f]{64}$", "0" * 64, "0" * 63),
        ("^(a|b(c|d)*)+$", "abcdcab", "abx"),
        (r"^[^/\\]+(/[^/]+)*$", "a/b/c", "a//c"),
        (r"\.tiff?$", "x.tif", "x.png"),
        ("", "", None),
        ("^[]a-]+$", "]-a", "b"),
        (r"^[\D\S\W]$", "é", ""),
    ],
)
def test_usual_pattern_matches_good_text_only(pattern: str, good: str, bad: str | None) -> None:
    assert found_in(pattern, good)
    assert bad is None or not found_in(pattern, bad)


@pytest.mark.parametrize(
    "pattern",
    ["(a?){30}a{30}", "^(a+)+$", "^(a|aa)+$", "(.*)*x", ".*.*.*.*x", "^(([a-z])+.)+[A-Z]([a-z])+$", "(a{100}){100}"],
)
def test_every_pattern_is_matched_in_bounded_time(pattern: str) -> None:
    started = time.process_time()
    found_in(pattern, "a" * 2000 + "!")
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[a-", "unterminated"),
        ("(a", "missing"),
        (r"(a)\1", "groupref is not supported"),
        ("(?=a)", "assert is not supported"),
        ("(?!a)", "assert not is not supported"),
        ("(?i)a", "flags"),
        ("(?i:a)", "subpattern is not supported"),
        (r"\ba", "at boundary is not supported"),
        ("a{20000}", "more than 10000"),
        ("((a{100}){100}){2}", "more than 10000"),
        ("(" * 5000 + ")" * 5000, "recursion"),
    ],
)
def test_unsupported_pattern_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(BadPattern) as caught:
        compile_pattern(pattern)
    assert reason in str(caught.value)


def test_only_the_beginning_of_very_long_text_is_looked_at() -> None:
    assert not found_in("x", "a" * MAX_TEXT + "x")
    assert found_in("x", "a" * (MAX_TEXT - 1) + "x")


def test_workflow_with_an_unsupported_pattern_has_a_fault() -> None:
    text = "workflow_id: test\nversion: 1\ninputs: {n: {type: string, pattern: '(a)\\1'}}\n"
    nodes = "nodes: {start: {type: start, next: end}, end: {type: end}}\n"
    assert faults_of(text + nodes) == [("bad-value", 3, 37)]
