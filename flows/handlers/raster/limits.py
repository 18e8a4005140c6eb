"""How large and how strange a raster's header may be before GDAL is shown the file. Pure: knows no file and no library.

Limits are for strangers' files. They hold for every picture in the file: an overview can be a bomb too.
"""

from collections.abc import Iterable, Sequence
from html import unescape
from typing import Final
from xml.etree import ElementTree

from flows.handlers.raster.tiff_pictures import UNCOMPRESSED, ClaimedPicture

MAX_SIDE_PIXELS: Final = 400_000
MAX_BANDS: Final = 256
MAX_DECODED_BYTES: Final = 200 * 1000**3
MAX_BLOCK_BYTES: Final = 128 * 1024**2
MAX_METADATA_BYTES: Final = 32 * 1024**2
# Beyond a small picture, no honest file unpacks to more than this many times its size.
MAX_EXPANSION: Final = 2_000
SMALL_BYTES: Final = 64 * 1024**2

COMPRESSIONS: Final = {
    1: "none", 3: "CCITT fax 3", 4: "CCITT fax 4", 5: "LZW", 7: "JPEG", 8: "deflate", 32773: "PackBits",
    32946: "deflate", 34887: "LERC", 34925: "LZMA", 50000: "ZSTD", 50001: "WebP",
}  # fmt: skip

# Metadata of these domains names other files, which GDAL opens by any driver and any protocol.
FOLLOWED: Final = frozenset({"OVERVIEWS", "GEOLOCATION", "SUBDATASETS", "DERIVED_SUBDATASETS"})
_XML_DOMAIN: Final = "XML:"


def refusals(pictures: Sequence[ClaimedPicture], size_bytes: int) -> list[str]:
    """Return the reasons against opening the file, as clauses that follow its name."""
    found = [clause for picture in pictures for clause in _of_one(picture, size_bytes)]
    decoded = sum(picture.decoded_bytes for picture in pictures)
    if decoded > max(SMALL_BYTES, size_bytes * MAX_EXPANSION):
        found.append(
            f"claims {decoded:,} bytes of pixels in a file of {size_bytes:,} bytes, more than {MAX_EXPANSION:,} times "
            "its size. It is damaged, or mostly empty: cut it to its content."
        )
    return list(dict.fromkeys(found))


def _of_one(picture: ClaimedPicture, size_bytes: int) -> Iterable[str]:
    limits = (
        ("pixels on its longer side", max(picture.width, picture.height), MAX_SIDE_PIXELS),
        ("bands", picture.bands, MAX_BANDS),
        ("bytes of pixels", picture.decoded_bytes, MAX_DECODED_BYTES),
        ("bytes of metadata", picture.metadata_bytes, MAX_METADATA_BYTES),
        # Blocks that are not compressed are cut by the reader; their size is judged as it reads them.
        *((("bytes in one block", _block_bytes(picture), MAX_BLOCK_BYTES),) if _is_packed(picture) else ()),
    )
    for what, claimed, limit in limits:
        if claimed > limit:
            yield f"is too large: {claimed:,} {what}; the limit is {limit:,}."
    if picture.compression not in COMPRESSIONS:
        known = ", ".join(sorted(set(COMPRESSIONS.values()) - {"none"}, key=str.lower))
        yield f"is compressed by method {picture.compression}. Supported are {known}, or none."
    if picture.end > size_bytes:
        yield (
            f"is cut short: it lists pixels beyond its end at {size_bytes:,} bytes. "
            "Check that its upload has finished and send it again."
        )
    if fault := metadata_fault(picture.metadata):
        yield fault


def _is_packed(picture: ClaimedPicture) -> bool:
    return picture.compression != UNCOMPRESSED


def _block_bytes(picture: ClaimedPicture) -> int:
    """What one block takes, packed or unpacked."""
    return max(picture.decoded_block_bytes, picture.largest_block_bytes)


def metadata_fault(metadata: bytes) -> str | None:
    """What speaks against GDAL's metadata tag: a domain that leads out of the file, or XML that readers differ on.

    GDAL's reader takes a domain from an attribute or from a child, in any case: every value in the tag is looked at.
    """
    text = metadata.partition(b"\0")[0]
    if not text.strip():
        return None
    try:
        # Without declarations there is nothing to expand.
        root = None if b"<!" in text else ElementTree.fromstring(_decoded(text))  # noqa: S314
    except ElementTree.ParseError:
        root = None
    if root is None:
        return "has metadata (tag 42112) that is not plain XML. Remove it and send the file again."
    for element in root.iter():
        for value in (*element.attrib.values(), element.text or ""):
            if _leads_out(value):
                return (
                    f"has metadata of the domain {value.strip()[:40]}, which names other files. Only the file itself "
                    "is read: remove that metadata and send it again."
                )
    return None


def _leads_out(value: str) -> bool:
    """GDAL escapes some values twice, and some readers unescape twice."""
    domain = unescape(value).strip().upper()
    return domain in FOLLOWED or domain.startswith(_XML_DOMAIN)


def _decoded(text: bytes) -> str:
    """Return the tag as text whatever its encoding: only its letters matter here."""
    decoded = text.decode("utf-8", "replace")
    return "".join(character if character.isprintable() else " " for character in decoded)
