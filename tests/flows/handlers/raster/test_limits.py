"""Which headers GDAL is never shown. Each limit alone, from both sides."""

from dataclasses import replace
from typing import Any

import pytest

from flows.handlers.raster import limits
from flows.handlers.raster.limits import metadata_fault, refusals
from flows.handlers.raster.tiff_pictures import ClaimedPicture

PLENTY = 10**12
PICTURE = ClaimedPicture(
    width=1000, height=1000, bands=3, bits=8, compression=8, block_width=256, block_height=256, bands_in_block=3,
    block_count=16, largest_block_bytes=1000, end=5000, metadata_bytes=300, metadata=b"",
)  # fmt: skip

LIMITS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"width": 400_000}, {"width": 400_001}, "pixels on its longer side"),
    ({"height": 400_000}, {"height": 400_001}, "pixels on its longer side"),
    ({"bands": 256}, {"bands": 257}, "bands"),
    ({"metadata_bytes": 2**25}, {"metadata_bytes": 2**25 + 1}, "bytes of metadata"),
    ({"largest_block_bytes": 2**27}, {"largest_block_bytes": 2**27 + 1}, "bytes in one block"),
    (
        {"block_width": 2**14, "block_height": 2**13, "bands_in_block": 1},
        {"block_width": 2**14, "block_height": 2**13 + 1, "bands_in_block": 1},
        "bytes in one block",
    ),
    ({"width": 250_000, "height": 200_000, "bands": 4}, {"width": 250_000, "height": 200_001, "bands": 4}, "of pixels"),
    ({"compression": 50_000}, {"compression": 6}, "compressed by method 6"),
    ({"end": PLENTY}, {"end": PLENTY + 1}, "cut short"),
]


@pytest.mark.parametrize(("within", "beyond", "words"), LIMITS)
def test_header_is_refused_only_beyond_each_limit(within: dict[str, Any], beyond: dict[str, Any], words: str) -> None:
    assert refusals([replace(PICTURE, **within)], PLENTY) == []
    (clause,) = refusals([replace(PICTURE, **beyond)], PLENTY)
    assert words in clause


def test_blocks_that_are_not_compressed_may_be_one_large_strip() -> None:
    whole = replace(PICTURE, compression=1, block_width=20_000, block_height=20_000, largest_block_bytes=2**31)
    assert refusals([whole], PLENTY) == []


def test_an_overview_is_judged_like_the_picture_itself() -> None:
    (clause,) = refusals([PICTURE, replace(PICTURE, bands=1000)], PLENTY)
    assert "1,000 bands" in clause


def test_all_pictures_together_may_not_unpack_to_too_much() -> None:
    large = replace(PICTURE, width=5000, height=4000, bands=1)
    assert refusals([large] * 3, 10_000) == []
    (clause,) = refusals([large] * 4, 10_000)
    assert "80,000,000 bytes of pixels in a file of 10,000 bytes" in clause
    assert refusals([large] * 4, 80_000_000 // limits.MAX_EXPANSION) == []


PLAIN = [
    b"",
    b"\0\0",
    b"<GDALMetadata/>",
    b'<GDALMetadata>\n  <Item name="BY">me &amp; you</Item><Item name="unit" sample="0">m</Item></GDALMetadata>\n\0',
    '<GDALMetadata><Item name="ORT">Zürich</Item></GDALMetadata>'.encode(),
    '<GDALMetadata><Item name="ORT">Zürich</Item></GDALMetadata>'.encode("latin-1"),
    b'<GDALMetadata><Item name="INTERLEAVE" domain="IMAGE_STRUCTURE">PIXEL</Item></GDALMetadata>',
    b'<GDALMetadata><Item name="HEIGHT_OFF" domain="RPC">1</Item></GDALMetadata>',
]
HOSTILE = [
    (b'<GDALMetadata><Item name="OVERVIEW_FILE" domain="OVERVIEWS">/etc/passwd</Item></GDALMetadata>', "OVERVIEWS"),
    (b'<GDALMetadata><Item name="a" DOMAIN=" overviews ">x</Item></GDALMetadata>', "overviews"),
    (b'<GDALMetadata><Item name="a" domain="&#79;VERVIEWS">x</Item></GDALMetadata>', "OVERVIEWS"),
    (b'<GDALMetadata><Item name="a" domain="&amp;#79;VERVIEWS">x</Item></GDALMetadata>', "VERVIEWS"),
    (b'<GDALMetadata><Item name="a">x<domain>OVERVIEWS</domain></Item></GDALMetadata>', "OVERVIEWS"),
    (b'<GDALMetadata><Item name="X_DATASET" domain="GEOLOCATION">x.vrt</Item></GDALMetadata>', "GEOLOCATION"),
    (b'<GDALMetadata><Item domain="xml:VRT">&lt;VRTDataset/&gt;</Item></GDALMetadata>', "xml:VRT"),
    (b'<GDALMetadata><Item domain="SUBDATASETS">x</Item></GDALMetadata>', "SUBDATASETS"),
    (b"<!DOCTYPE a><GDALMetadata/>", "not plain XML"),
    (b"<GDALMetadata><Item>", "not plain XML"),
    (b"<GDALMetadata>" * 3000, "not plain XML"),
    (b"just words", "not plain XML"),
]


@pytest.mark.parametrize("metadata", PLAIN)
def test_facts_in_metadata_do_no_harm(metadata: bytes) -> None:
    assert metadata_fault(metadata) is None


@pytest.mark.parametrize(("metadata", "words"), HOSTILE)
def test_metadata_that_leads_out_of_the_file_is_refused(metadata: bytes, words: str) -> None:
    assert words in str(metadata_fault(metadata))
