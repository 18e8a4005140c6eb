"""The short tests of branches: what holds, and what is refused with what was expected."""

from typing import Any

import pytest

from flows.compiler.branch_tests import BadTest, parse_test


@pytest.mark.parametrize(
    ("test", "yes", "no"),
    [
        ("< 100", 99, 100),
        ("<= 100", 100, 101),
        ("> -1.5", -1, -1.5),
        (">= .5", 0.5, 0.4),
        ("== 'a b'", "a b", "ab"),
        ('!= "x"', "y", "x"),
        ("== true", True, False),
        ("== false", False, True),
        ("== none", None, 0),
        ("== null", None, 0),
        ("== 1e3", 1000, 1001),
        ("== +5", 5, -5),
        (">= 100 and < 500", 100, 500),
        ("< 1 or > 9", 10, 5),
        ("< 1 or > 9 and != 10", 0, 10),
        ("(< 1 or > 9) and != 10", 11, 10),
        ("((== 1))", 1, 2),
        ("in [1, 'a', none]", "a", "b"),
        ("in (1, 2)", 2, 3),
        ("in []", None, 1),
        ("not in [1, 2,]", 3, 2),
    ],
)
def test_branch_test_holds_for_matching_values_only(test: str, yes: Any, no: Any) -> None:
    assert parse_test(test)(yes) is (test != "in []")
    assert parse_test(test)(no) is False


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        ("", "expected '<'"),
        ("100", "found '100'"),
        ("<", "found 'the end'"),
        ("< x", "found 'x'; quote text"),
        ("< 3 4", "nothing may follow here, found '4'"),
        ("(< 3", "expected ')', found 'the end'"),
        ("in 3", "expected '[' or '(', found '3'"),
        ("in [1 2]", "expected ','"),
        ("in [1", "found 'the end'"),
        ("not 3", "expected 'in', found '3'"),
        ("< 3 and", "expected '<'"),
        ("< {{ inputs.n }}", "cannot read '{{ inputs.n }}'"),
        ("== 'open", "cannot read"),
        ("== 12abc", "cannot read '12abc'"),
        ("(" * 30 + "< 3" + ")" * 30, "nested too deeply"),
        ("< " + "1" * 2000, "too many"),
    ],
)
def test_malformed_branch_test_is_refused_with_the_expectation(test: str, reason: str) -> None:
    with pytest.raises(BadTest) as caught:
        parse_test(test)
    assert reason in str(caught.value)


def test_twenty_parentheses_are_not_too_deep() -> None:
    assert parse_test("(" * 20 + "< 3" + ")" * 20)(2)
