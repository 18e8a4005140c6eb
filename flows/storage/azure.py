"""A zone in a container of Azure Blob Storage."""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from flows.handlers.errors import HandlerError, Outage, SourceChanged, Transient
from flows.storage.account import Account
from flows.storage.off_loop import off_the_loop
from flows.storage.protocol import Check, ListedBlob, Store, Stream, checked_name, go_on, missing
from flows.storage.readers import RangeReader
from flows.storage.signing import SasUrls
from flows.storage.zones import ZONES, Zones

if TYPE_CHECKING:
    from azure.storage.blob import BlobClient, ContainerClient

AT_ONCE: Final = 4
FIRST_LOOK_SECONDS: Final = 0.05
LONGEST_LOOK_SECONDS: Final = 1.0
CHANGED: Final = "ConditionNotMet"


@off_the_loop
@dataclass(frozen=True)
class AzureStore:
    """Blobs of one container. Azure's messages may hold URLs, so only its error codes are passed on."""

    account: Account
    container: str

    @property
    def ca_file(self) -> str:
        """The certificates that readers of our URLs trust, since GDAL's wheel finds none by itself."""
        import certifi

        return self.account.ca_file or certifi.where()

    @cached_property
    def _client(self) -> "ContainerClient":
        return self.account.client.get_container_client(self.container)

    @cached_property
    def _urls(self) -> SasUrls:
        return SasUrls(self.account, self.container)

    def _blob(self, name: str) -> "BlobClient":
        return self._client.get_blob_client(checked_name(name))

    def readable_path(self, name: str) -> str:
        if url := self._urls.known(checked_name(name)):
            return url
        if self.size_bytes(name) is None:
            raise missing(name)
        with _translate_faults(name):
            return self._urls.sign(name)

    def reader(self, name: str) -> RangeReader:
        """Open the blob as it is now; once it is replaced, its ranges are refused."""
        with _require_blob(name):
            told = self._blob(name).get_blob_properties()
        etag = str(told.etag)
        return RangeReader(_Version(self, etag), name, int(told.size), etag)

    def size_bytes(self, name: str) -> int | None:
        with contextlib.suppress(_NoBlob), _translate_faults(name):
            return int(self._blob(name).get_blob_properties().size)
        return None

    def stamp(self, name: str) -> str | None:
        with contextlib.suppress(_NoBlob), _translate_faults(name):
            return str(self._blob(name).get_blob_properties().etag)
        return None

    def read_bytes(self, name: str) -> bytes:
        with _require_blob(name):
            return self._blob(name).download_blob(max_concurrency=AT_ONCE).readall()

    def read_range(self, name: str, start: int, length: int) -> bytes:
        return self.range_of(name, start, length)

    def range_of(self, name: str, start: int, length: int, **condition: Any) -> bytes:
        """Return the range if the blob still meets the condition."""
        from azure.core.exceptions import HttpResponseError

        with _require_blob(name):
            try:
                found: bytes = self._blob(name).download_blob(offset=start, length=length, **condition).readall()
            except HttpResponseError as error:
                if error.status_code == 416:  # it ends before
                    return b""
                raise
        return found

    def chunks(self, name: str) -> Iterator[bytes]:
        with _require_blob(name):
            yield from self._blob(name).download_blob().chunks()

    def write_bytes(self, name: str, content: bytes) -> None:
        with _translate_faults(name):
            self._blob(name).upload_blob(content, overwrite=True)

    def write_new(self, name: str, content: bytes) -> bool:
        from azure.core.exceptions import ResourceExistsError

        with _translate_faults(name):
            try:
                self._blob(name).upload_blob(content, overwrite=False)  # the account refuses: if-none-match
            except ResourceExistsError:
                return self.read_bytes(name) == content
        return True

    def append(self, name: str, content: bytes) -> None:
        from azure.core import MatchConditions
        from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError

        blob = self._blob(name)
        with _translate_faults(name):
            try:
                blob.append_block(content)
            except ResourceNotFoundError:
                with contextlib.suppress(ResourceExistsError):  # another thread of ours was quicker
                    blob.create_append_blob(match_condition=MatchConditions.IfMissing)
                blob.append_block(content)

    def put_file(self, name: str, source: Path, check: Check = go_on) -> None:
        with source.open("rb") as file:
            self.put_stream(name, file, os.fstat(file.fileno()).st_size, check)

    def put_stream(self, name: str, source: Stream, size_bytes: int, check: Check = go_on) -> None:
        check(0)
        with _translate_faults(name):
            self._blob(name).upload_blob(
                cast("IO[bytes]", source),
                length=size_bytes,
                overwrite=True,
                max_concurrency=AT_ONCE,
                progress_hook=lambda moved, _: check(moved),
            )

    def copy_from(self, name: str, source: Store, source_name: str, check: Check = go_on) -> None:
        if isinstance(source, AzureStore):
            self._copy_in_account(name, source.readable_path(source_name), check)
            return
        with _translate_faults(name):
            self._blob(name).upload_blob(_checked(source.chunks(source_name), check), overwrite=True)

    def _copy_in_account(self, name: str, url: str, check: Check) -> None:
        """Have the account copy, and wait until it has; readers see the blob only then."""
        blob, pause, moved = self._blob(name), FIRST_LOOK_SECONDS, 0
        with _translate_faults(name):
            state = blob.start_copy_from_url(url)
            status, copy_id = str(state["copy_status"]), str(state["copy_id"])
            while status == "pending":
                time.sleep(pause)
                pause = min(pause * 2, LONGEST_LOOK_SECONDS)
                try:
                    check(moved)
                except BaseException:
                    self._abort(name, copy_id)
                    raise
                copy = blob.get_blob_properties().copy
                status, moved = str(copy.status), _bytes_through(copy.progress)
        if status != "success":
            raise Transient(f"The storage account did not copy {name!r}: {status}.")

    def _abort(self, name: str, copy_id: str) -> None:
        """Abort the copy and delete the empty blob that the account keeps of it."""
        from azure.core.exceptions import ResourceExistsError

        with contextlib.suppress(ResourceExistsError):  # it has just ended, well or not
            self._blob(name).abort_copy(copy_id)
        self.delete(name)

    def names(self, folder: str) -> list[str]:
        start = f"{checked_name(folder)}/"
        with _translate_faults(folder):
            found = self._client.walk_blobs(name_starts_with=start, delimiter="/")
            return sorted(one.name for one in found if not one.name.endswith("/"))

    def delete(self, name: str) -> None:
        self._urls.forget(name)
        with contextlib.suppress(_NoBlob), _translate_faults(name):
            self._blob(name).delete_blob(delete_snapshots="include")

    def delete_below(self, folder: str) -> list[str]:
        """Delete as the protocol says. Uncommitted blocks are no blob: Azure drops them after a week."""
        with _translate_faults(folder):
            names = sorted(self._client.list_blob_names(name_starts_with=f"{checked_name(folder)}/"))
        self._delete_all(names)
        return names

    def listed(self, folder: str | None = None) -> Iterator[ListedBlob]:
        """List as the protocol says, page by page. Uncommitted blocks are not listed."""
        start = None if folder is None else f"{checked_name(folder)}/"
        with _translate_faults(folder or self.container):
            for blob in self._client.list_blobs(name_starts_with=start):
                yield ListedBlob(blob.name, blob.size, blob.last_modified.timestamp())

    def remove(self, listed: Iterable[ListedBlob]) -> None:
        self._delete_all([one.name for one in listed])

    def _delete_all(self, names: Iterable[str]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(self.delete, names))


@dataclass(frozen=True)
class _Version:
    """Reads ranges of one version of the store's blobs."""

    store: AzureStore
    etag: str

    def read_range(self, name: str, start: int, length: int) -> bytes:
        from azure.core import MatchConditions

        return self.store.range_of(name, start, length, etag=self.etag, match_condition=MatchConditions.IfNotModified)


def azure_zones(account: Account, prefix: str) -> Zones:
    """The zones as containers of one account: the prefix, then the zone's name."""
    return Zones(*(AzureStore(account, f"{prefix}{zone}") for zone in ZONES))


def _checked(chunks: Iterator[bytes], check: Check) -> Iterator[bytes]:
    moved = 0
    for chunk in chunks:
        check(moved)
        moved += len(chunk)
        yield chunk


def _bytes_through(progress: object) -> int:
    """Return how many bytes are copied, from the account's text "copied/all"."""
    done = str(progress or "").partition("/")[0]
    return int(done) if done.isdecimal() else 0


class _NoBlob(Exception):
    """There is no blob of that name."""


@contextlib.contextmanager
def _translate_faults(name: str) -> Iterator[None]:
    """Turn Azure's errors into ours, since Azure's quote URLs and a partner may read ours."""
    from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError

    try:
        yield
    except ClientAuthenticationError as error:
        raise HandlerError(f"The storage account does not know us: {_code(error)}.") from None
    except HttpResponseError as error:
        if _code(error) in {"BlobNotFound", "404"}:
            raise _NoBlob from None
        if _code(error) == CHANGED:
            raise SourceChanged from None
        fault = Outage if _is_away(error.status_code) else Transient
        raise fault(f"The storage account refused {name!r}: {_code(error)}.") from None
    except AzureError as error:
        raise Outage(f"The storage account did not answer for {name!r}: {type(error).__name__}.") from None


def _is_away(status: int | None) -> bool:
    """Whether the account is at fault or busy. Without a status it did not answer."""
    return status is None or status >= 500 or status in {408, 429}


def _code(error: Any) -> str:
    code = getattr(error, "error_code", None) or getattr(error, "status_code", None)
    return str(getattr(code, "value", code) or type(error).__name__)


@contextlib.contextmanager
def _require_blob(name: str) -> Iterator[None]:
    """Translate Azure's errors where a blob must exist."""
    try:
        with _translate_faults(name):
            yield
    except _NoBlob:
        raise missing(name) from None
