"""How a source is read: the decision, exhaustively; the checksum; the layout, also of files that lie."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
import rasterio
from hypothesis import given
from hypothesis import strategies as st

from deployments import sample
from flows.handlers.context import Context
from flows.handlers.errors import InvalidInput, Stopped
from flows.handlers.raster.copying import LARGEST_COPY_BYTES, SMALL_BYTES, decide, lies_in_tiles
from flows.handlers.raster.tile_declarations import BlobToMountParams, blob_to_mount
from tests.support.rasters import bronze, context_in, write

NAME = "up/dem.tif"


@pytest.mark.parametrize(
    ("size_bytes", "is_remote", "is_tiled", "reading"),
    [
        (SMALL_BYTES, False, False, "ranges"),
        (LARGEST_COPY_BYTES, False, False, "ranges"),
        (SMALL_BYTES, True, True, "whole"),
        (SMALL_BYTES, True, False, "whole"),
        (SMALL_BYTES + 1, True, True, "ranges"),
        (SMALL_BYTES + 1, True, False, "whole"),
        (LARGEST_COPY_BYTES, True, False, "whole"),
        (LARGEST_COPY_BYTES + 1, True, False, "ranges"),
    ],
)
def test_reading_mode_follows_from_size_storage_and_layout(
    size_bytes: int, is_remote: bool, is_tiled: bool, reading: str
) -> None:
    assert decide(size_bytes, is_remote=is_remote, is_tiled=is_tiled).reading == reading


@pytest.mark.parametrize("big", ["YES", "NO"])
@pytest.mark.parametrize("order", ["LITTLE", "BIG"])
@pytest.mark.parametrize("is_tiled", [True, False])
def test_the_layout_is_found_in_the_first_bytes(big: str, order: str, is_tiled: bool, tmp_path: Path) -> None:
    layout = {} if is_tiled else {"tiled": False, "blockxsize": None, "blockysize": 16}
    write(tmp_path / "a.tif", sample.pixels(3, 300), BIGTIFF=big, ENDIANNESS=order, **layout)
    assert lies_in_tiles((tmp_path / "a.tif").read_bytes()) is is_tiled


@given(st.sampled_from([b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b""]), st.binary(max_size=400))
def test_any_first_bytes_give_a_layout_or_none(magic: bytes, rest: bytes) -> None:
    assert lies_in_tiles(magic + rest) in (True, False)


def test_the_source_is_read_once_and_stays_where_it_is(context: Context, tmp_path: Path) -> None:
    sample.write(bronze(tmp_path, NAME), seed=3, size=600)
    found = blob_to_mount(BlobToMountParams(source=NAME), context)
    assert found.sha256 == hashlib.sha256(bronze(tmp_path, NAME).read_bytes()).hexdigest()
    assert (found.source, found.reading) == (NAME, "ranges")
    assert found.size_mb == pytest.approx(bronze(tmp_path, NAME).stat().st_size / 1024**2)


def test_stopped_blob_to_mount_reads_nothing(context: Context, tmp_path: Path) -> None:
    sample.write(bronze(tmp_path, NAME), seed=3, size=600)
    context.stop_event.set()
    with pytest.raises(Stopped):
        blob_to_mount(BlobToMountParams(source=NAME), context)


def test_missing_blob_is_refused_as_invalid_input(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="There is no blob"):
        blob_to_mount(BlobToMountParams(source=NAME), context_in(tmp_path))


def test_copying_module_loads_no_gdal() -> None:
    code = "import sys, flows.handlers.raster.copying; print(sorted({'rasterio', 'rio_cogeo'} & sys.modules.keys()))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
    assert rasterio.__name__ not in code.partition(";")[0]
