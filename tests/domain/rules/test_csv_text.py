"""What leaves as CSV has no cell that a spreadsheet takes for a formula, at whatever separator it cuts."""

import csv
import io
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from domain.rules.csv_text import cell, lines

FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
UNSEEN = " \t\r\n\x00\"'\ufeff\u200b"
ODD = st.text(st.sampled_from([*FORMULAS, *UNSEEN, *",;|ax1."]), max_size=12)


def is_formula(shown: str) -> bool:
    """By what a spreadsheet would see; an apostrophe that leads makes it text."""
    bare = shown.strip(UNSEEN.replace("'", ""))
    if not bare.startswith(FORMULAS):
        return False
    try:
        float(bare)
    except ValueError:
        return True
    return False


@given(st.lists(st.lists(ODD, min_size=2, max_size=3), min_size=1, max_size=3))
@example([["a", 'a;"=1+1']])
@example([["a", "b\n=1+1"]])
@example([["=1", "@x"]])
def test_no_cell_is_a_formula_at_any_separator(table: list[list[str]]) -> None:
    width = len(table[0])
    rows = [{f"{place}{name}": name for place, name in enumerate(row)} for row in table if len(row) == width]
    text = "".join(lines(rows))
    for separator in ",;\t|":
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            assert not [shown for shown in row if is_formula(shown)], (separator, text)


@pytest.mark.parametrize("harmless", ["", "Alps", "a = b", "x-1", "a, b; c", "1-2", "POINT (14 47)", "2024-01-01"])
def test_harmless_text_stays_as_it_is(harmless: str) -> None:
    assert cell(harmless) == harmless


@pytest.mark.parametrize("number", [-5, 1.5, "-5", "+4.5e-3", "-.5", "-Infinity", -math.inf, None, True])
def test_numbers_stay_as_they_are(number: object) -> None:
    assert cell(number) == number


@pytest.mark.parametrize(
    "formula", ["=1+1", " =1+1", "\ufeff=cmd|' /C calc'!A0", "-1+1", "@SUM(A1)", "+1 (2) 3", "＝1"]
)
def test_formula_is_led_by_an_apostrophe(formula: str) -> None:
    assert cell(formula).startswith("'")


def test_header_is_written_like_any_cell_and_nothing_is_written_of_no_rows() -> None:
    assert "".join(lines([{"=name": 1}])) == "'=name\r\n1\r\n"
    assert list(lines([])) == []


def test_check_finds_formula_that_was_left() -> None:
    assert is_formula("=1+1")
    assert is_formula(" -1+1")
    assert not is_formula("-1")
