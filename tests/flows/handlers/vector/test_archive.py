"""Zips that nobody trusts: judged by their directory, unpacked under names of ours."""

import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from flows.handlers.errors import InvalidInput
from flows.handlers.vector import archive
from tests.support import vectors

ONE_LAYER = {f"roads{suffix}": b"x" for suffix in archive.PARTS}


def zipped(path: Path, entries: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in entries.items():
            made.writestr(name, content)
    return path


def extracted(tmp_path: Path, entries: Mapping[str, bytes], layer: str | None = None) -> list[str]:
    out = tmp_path / "out"
    out.mkdir()
    archive.extract(zipped(tmp_path / "a.zip", entries), out, layer, "up/a.zip")
    return sorted(path.name for path in out.iterdir())


def test_only_the_parts_of_the_layer_are_written(tmp_path: Path) -> None:
    more = {"folder/Rivers.SHP": b"r", "folder/Rivers.shx": b"r", "folder/rivers.DBF": b"r", "roads.aux.xml": b"<x/>"}
    assert extracted(tmp_path, {**ONE_LAYER, **more}, "Rivers") == ["source.dbf", "source.shp", "source.shx"]
    assert (tmp_path / "out" / "source.shp").read_bytes() == b"r"


def test_files_added_by_macos_are_ignored(tmp_path: Path) -> None:
    assert "source.prj" in extracted(tmp_path, {**ONE_LAYER, "__MACOSX/._roads.shp": b"x"})


@pytest.mark.parametrize(
    "name", ["../a.shp", "/etc/a.shp", "a/../../b.shp", "C:\\a.shp", "..\\a.shp", "\\\\host\\a.shp"]
)
def test_archive_with_names_that_lead_out_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="leads out of the archive"):
        extracted(tmp_path, {**ONE_LAYER, name: b"x"})
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("entries", "layer", "told"),
    [
        ({"notes.txt": b"x"}, None, "holds no Shapefile"),
        ({**ONE_LAYER, "b.shp": b"x"}, None, "several Shapefiles.*'roads', 'b'"),
        (ONE_LAYER, "rivers", "holds no layer 'rivers'. It holds 'roads'"),
        ({"roads.shp": b"x", "roads.dbf": b"x"}, None, "lacks .shx beside"),
        ({f"{n}.txt": b"" for n in range(1001)}, None, "1,001 files; the limit is 1,000"),
        ({**ONE_LAYER, "b.shp": bytes(100_000_000)}, None, "would grow from"),
    ],
)
def test_unusable_archive_is_refused_with_the_reason(
    tmp_path: Path, entries: Mapping[str, bytes], layer: str | None, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        extracted(tmp_path, entries, layer)


def test_archive_with_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as made:
        link = zipfile.ZipInfo("roads.shp")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        made.writestr(link, "/etc/passwd")
    with pytest.raises(InvalidInput, match="leads out"):
        archive.extract(path, tmp_path, None, "up/a.zip")


def test_a_damaged_archive_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    whole = vectors.write(tmp_path / "fields.zip", vectors.squares(20)).read_bytes()
    out = tmp_path / "out"
    out.mkdir()
    for length in range(10, len(whole), len(whole) // 12):
        cut = tmp_path / "cut.zip"
        cut.write_bytes(whole[:length])
        with pytest.raises(InvalidInput, match="not a zip archive that can be read"):
            archive.extract(cut, out, None, "up/a.zip")
