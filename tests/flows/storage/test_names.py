"""Names that can only mean a blob of the zone."""

from pathlib import Path

import pytest

from flows.handlers.errors import InvalidInput
from flows.storage import LocalStore, checked_name

HOSTILE = [
    "", "/", "/etc/passwd", "../x", "a/../b", "a//b", "a/./b", ".hidden", "a/.b", "a\\..\\b", "a\x00b", "a/b\n",
    "/vsicurl/http://x/y", "a/..",
    "～/x", "．．/x", "a/" + "b" * 201, "x/" * 500 + "y", "a:b", "a%2f..%2fb", "a*", "é/x",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_blob_names_are_refused(name: str, tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for act in (store.readable_path, store.size_bytes, store.delete, store.read_bytes):
        with pytest.raises(InvalidInput):
            act(name)
    with pytest.raises(InvalidInput):
        store.write_bytes(name, b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "a/b.tif", "Uploads/2026 11/dem (1)".replace("(1)", "1"), "a_b-c=d@e+f/g.h.i"])
def test_ordinary_blob_names_are_accepted_unchanged(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize("name", ["link", "folder/inside", "others"])
def test_symbolic_link_in_a_zone_is_not_followed(tmp_path: Path, name: str) -> None:
    """Out of the zone, to what lies in it under another's name, and by way of a folder."""
    zone = tmp_path / "zone"
    (zone / "theirs").mkdir(parents=True)
    for place in (tmp_path / "outside", zone / "theirs" / "inside"):
        place.write_text("secret")
    (zone / "link").symlink_to(tmp_path / "outside")
    (zone / "others").symlink_to("theirs/inside")
    (zone / "folder").symlink_to("theirs")
    store = LocalStore(zone)
    for read in (store.read_bytes, store.readable_path, store.size_bytes, store.stamp, store.delete):
        with pytest.raises(InvalidInput, match="another place"):
            read(name)
    assert store.read_bytes("theirs/inside") == b"secret"
    (zone / "theirs" / "link").symlink_to("inside")
    assert store.names("theirs") == ["theirs/inside"]


def test_zone_folder_may_itself_be_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "zone").symlink_to("disk")
    LocalStore(tmp_path / "zone").write_bytes("a/b", b"content")
    assert LocalStore(tmp_path / "zone").read_bytes("a/b") == b"content"
