"""Which bytes of a product a reader asks for."""

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.serving.downloads import MEDIA_TYPE, _send_blob, wanted_part
from gateway.serving.problems import ReaderProblem


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
def test_single_range_is_understood_and_any_other_header_means_the_whole(
    header: str | None, part: range | None
) -> None:
    wanted = wanted_part(header, 100)
    assert (wanted is None) == (part is None)
    assert list(wanted or ()) == list(part or ())


class Emptied:
    """Stands in for an account that signs a name whose blob has been taken away since it was last looked at."""

    def readable_path(self, name: str) -> str:
        return f"https://account.test/silver/{name}?sig=x"

    def size_bytes(self, name: str) -> int | None:
        return None


def test_missing_blob_is_not_answered_as_an_empty_file() -> None:
    state = SimpleNamespace(zones=SimpleNamespace(silver=Emptied()))
    scope = {"state": {"freshness": ('"1"', True)}}
    request: Any = SimpleNamespace(app=SimpleNamespace(state=state), scope=scope, headers={})
    with pytest.raises(ReaderProblem) as refusal:
        _send_blob(request, "a.tif", MEDIA_TYPE, "a.tif")
    assert (refusal.value.status, refusal.value.code) == (503, "storage-unavailable")
