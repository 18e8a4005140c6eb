"""Open rasters: lent to one reader at a time, used again, and closed when they are old, too many or failed."""

import threading
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.io import DatasetReader

from gateway.serving.handles import Handles
from tests.support.rasters import write


@pytest.fixture
def raster(tmp_path: Path) -> Path:
    return write(tmp_path / "raster.tif", np.arange(64 * 64, dtype="uint16").reshape(64, 64), tiled=False)


def test_a_handle_is_used_again_until_it_is_old(raster: Path) -> None:
    now, opened = [0.0], []

    def open_it() -> DatasetReader:
        opened.append(now[0])
        return rasterio.open(raster)

    handles = Handles(4, 10.0, lambda: now[0])
    for moment in (0.0, 9.0, 10.0, 11.0):
        now[0] = moment
        with handles.lent("raster", open_it) as dataset:
            assert int(dataset.read(1)[1, 0]) == 64
    assert opened == [0.0, 10.0]
    handles.close()


def test_two_readers_at_once_have_two_handles(raster: Path) -> None:
    handles = Handles(4, 60.0)
    with handles.lent("raster", lambda: rasterio.open(raster)) as one:
        with handles.lent("raster", lambda: rasterio.open(raster)) as other:
            assert one is not other
        with handles.lent("raster", lambda: rasterio.open(raster)) as again:
            assert again is other


def test_a_handle_that_failed_its_reader_is_closed(raster: Path) -> None:
    handles = Handles(4, 60.0)
    with pytest.raises(ValueError, match="mine"), handles.lent("raster", lambda: rasterio.open(raster)) as broken:
        raise ValueError("mine")
    assert broken.closed
    with handles.lent("raster", lambda: rasterio.open(raster)) as dataset:
        assert dataset is not broken


def test_number_of_open_handles_is_bounded(raster: Path) -> None:
    handles, lent = Handles(2, 60.0), []
    for number in range(5):
        with handles.lent(str(number), lambda: rasterio.open(raster)) as dataset:
            lent.append(dataset)
    assert [dataset.closed for dataset in lent] == [True, True, True, False, False]
    handles.close()
    assert all(dataset.closed for dataset in lent)


def test_readers_in_many_threads_read_the_right_pixels(raster: Path) -> None:
    handles, wrong = Handles(3, 60.0), []
    expected = np.arange(64 * 64, dtype="uint16").reshape(64, 64)

    def read() -> None:
        for _ in range(50):
            with handles.lent("raster", lambda: rasterio.open(raster)) as dataset:
                if not np.array_equal(dataset.read(1), expected):
                    wrong.append(threading.current_thread().name)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(handles._idle) <= 3
