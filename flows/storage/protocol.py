"""What every kind of store can do, and which names blobs may have."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from flows.handlers.errors import InvalidInput

if TYPE_CHECKING:
    from flows.storage.readers import Reader

CHUNK_BYTES = 4 * 1024 * 1024
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._ +=@-]{0,199}")
_MAX_NAME = 900
PARTIAL = ".partial-"  # how names of half-written files begin

# Is told now and then how many bytes of a transfer are through, and may raise: what was moved so far becomes no blob.
Check = Callable[[int], None]


def checked_name(name: str) -> str:
    """Return the name unchanged if it can only mean a blob below its store, else refuse it."""
    segments = name.split("/")
    if len(name) > _MAX_NAME or not all(_SEGMENT.fullmatch(segment) for segment in segments):
        raise InvalidInput(
            f"{name[:120]!r} is not a blob name. A name is container/path: letters, digits, '._ +=@-' and '/', "
            "no empty part and none that starts with a dot."
        )
    return name


def is_partial(name: str) -> bool:
    """Whether the file was still being written: it is no blob and never becomes one without its writer."""
    return name.rpartition("/")[2].startswith(PARTIAL)


def missing(name: str) -> InvalidInput:
    """Return the refusal of a blob that does not exist."""
    return InvalidInput(f"There is no blob {name!r}. Check container and path, and that the upload has finished.")


def go_on(moved: int) -> None:
    """Never leave a transfer early."""


@dataclass(frozen=True)
class ListedBlob:
    """What lies in a zone: a blob, or a file that never became one. `written_at` is in seconds since 1970."""

    name: str
    size_bytes: int
    written_at: float


class Stream(Protocol):
    """What can be read in pieces, and from its beginning again."""

    def read(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, whence: int = 0, /) -> int: ...

    def tell(self) -> int: ...


class SmallStore(Protocol):
    """The part of a store that keeps small things."""

    def size_bytes(self, name: str) -> int | None: ...

    def read_bytes(self, name: str) -> bytes: ...

    def write_bytes(self, name: str, content: bytes) -> None: ...

    def append(self, name: str, content: bytes) -> None: ...

    def names(self, folder: str) -> list[str]: ...


class RangeStore(Protocol):
    """The part of a store that reads ranges of blobs."""

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Return a part of the blob; less or nothing where the blob ends before."""


class CommonStore(SmallStore, RangeStore, Protocol):
    """The part of a store by which processes share work."""

    def write_new(self, name: str, content: bytes) -> bool: ...


class Store(RangeStore, Protocol):
    """One zone: blobs by name. Names are `container/path` and never leave the zone."""

    def readable_path(self, name: str) -> str:
        """A path or URL that a reader in this process can open now. A URL is a secret, good for five minutes or more.

        `flows.storage.reading` tells which it is, and how GDAL opens it. A GDAL try's process has none: it reads by
        `reader`.
        """

    def reader(self, name: str) -> "Reader":
        """Open the blob for reading at any place; the caller closes it."""

    def size_bytes(self, name: str) -> int | None:
        """The blob's size, or None where there is no such blob."""

    def read_bytes(self, name: str) -> bytes: ...

    def chunks(self, name: str) -> Iterator[bytes]:
        """The blob's content in pieces that fit into memory."""

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write the whole blob or nothing. Once this or another call that makes a whole blob returns, it stays."""

    def write_new(self, name: str, content: bytes) -> bool:
        """Write the blob if there is none of this name; whether it has this content now. Of several, one succeeds.

        Asked again after an answer that was lost, it is still a success: so content says whose it is.
        """

    def append(self, name: str, content: bytes) -> None:
        """Add something to the blob's end, making it where there is none. Readers may see part of the last.

        At least once: where an answer of the store was lost, the content may be there twice. A blob takes 50,000 of
        these. A power cut may take the last of them.
        """

    def put_file(self, name: str, source: Path, check: Check = go_on) -> None:
        """Copy a local file in; readers see the whole blob or nothing."""

    def put_stream(self, name: str, source: Stream, size_bytes: int, check: Check = go_on) -> None:
        """Copy this many bytes of an open stream in. An error while reading it leaves no blob."""

    def copy_from(self, name: str, source: "Store", source_name: str, check: Check = go_on) -> None:
        """Copy a blob of another zone in, by the store's own means where both are of one kind."""

    def names(self, folder: str) -> list[str]:
        """The blobs directly in the folder, sorted; empty where there is no such folder."""

    def delete(self, name: str) -> None:
        """Remove the blob; a blob that is not there is no error."""

    def delete_below(self, folder: str) -> list[str]:
        """Remove all blobs whose names begin with this folder, half-written ones too; returns their names."""


@runtime_checkable
class StampedStore(Store, Protocol):
    """A zone as services have it. Stores of tries have no stamps: a try compares nothing with what was there before."""

    def stamp(self, name: str) -> str | None:
        """Return a text that changes whenever the blob is written, without reading it; None where there is no blob."""

    def listed(self, folder: str | None = None) -> Iterator[ListedBlob]:
        """All that lies below the folder, or in the zone, in no order: half-written files too."""

    def remove(self, listed: Iterable[ListedBlob]) -> None:
        """Remove what was listed, and the folders that this empties. What is gone already is no error."""
