"""Which bytes of a product a reader asks for."""

import pytest

from gateway.serving.downloads import wanted_part


@pytest.mark.parametrize(
    ("header", "part"),
    [
        (None, None),
        ("bytes=0-0", range(1)),
        ("bytes=10-19", range(10, 20)),
        ("bytes=90-", range(90, 100)),
        ("bytes=90-500", range(90, 100)),
        ("bytes=-10", range(90, 100)),
        ("bytes=-500", range(100)),
        ("bytes=100-", range(0)),
        ("bytes=500-600", range(0)),
        ("bytes=20-10", range(0)),
        ("bytes=-0", range(0)),
        ("bytes=-", None),
        ("bytes=0-1,5-6", None),
        ("lines=0-1", None),
        ("bytes=a-b", None),
        ("bytes=0-" + "9" * 30, None),
    ],
)
def test_one_range_is_understood_and_anything_else_is_the_whole(header: str | None, part: range | None) -> None:
    wanted = wanted_part(header, 100)
    assert (wanted is None) == (part is None)
    assert list(wanted or ()) == list(part or ())
