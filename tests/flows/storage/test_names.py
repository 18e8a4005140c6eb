"""Names that can only mean a blob of the zone."""

from pathlib import Path

import pytest

from flows.errors import InvalidInput
from flows.storage import LocalStore, checked_name

HOSTILE = [
    "", "/", "/etc/passwd", "../x", "a/../b", "a//b", "a/./b", ".hidden", "a/.b", "a\\..\\b", "a\x00b", "a/b\n",
    "/vsicurl/http://x/y", "a/..",
    "～/x", "．．/x", "a/" + "b" * 201, "x/" * 500 + "y", "a:b", "a%2f..%2fb", "a*", "é/x",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(name: str, tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for act in (store.readable_path, store.size_bytes, store.delete, store.read_bytes):
        with pytest.raises(InvalidInput):
            act(name)
    with pytest.raises(InvalidInput):
        store.write_bytes(name, b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "a/b.tif", "Uploads/2026 11/dem (1)".replace("(1)", "1"), "a_b-c=d@e+f/g.h.i"])
def test_ordinary_names_are_taken_as_they_are(name: str) -> None:
    assert checked_name(name) == name


def test_a_link_does_not_lead_out_of_the_zone(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    zone = tmp_path / "zone"
    zone.mkdir()
    (zone / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(InvalidInput, match="leads outside"):
        LocalStore(zone).read_bytes("link")
