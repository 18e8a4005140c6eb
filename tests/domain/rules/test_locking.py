"""What If-Match lets through."""

import pytest

from domain.rules.locking import Precondition, check, etag


@pytest.mark.parametrize(
    ("header", "verdict"),
    [
        ('"3"', "holds"),
        ('"2", "3"', "holds"),
        ("*", "holds"),
        ('"2"', "fails"),
        ('"33"', "fails"),
        ("3", "fails"),
        ('W/"3"', "fails"),
        (None, "missing"),
        (" ", "missing"),
    ],
)
def test_if_match_header_of_every_form_is_judged(header: str | None, verdict: str) -> None:
    assert check(header, 3) is Precondition(verdict)
    assert etag(3) == '"3"'
