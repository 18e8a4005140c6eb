"""Fetches a source from an address into the bronze zone, where it is a stranger's blob like any other. Knows no GDAL.

The connection goes to an address that was judged, not to the name again; redirects are judged like the first address.
No message holds more of an address than its host: what follows may be a secret.
"""

import hashlib
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urljoin

import httpcore

from domain.rules.addresses import Address, RefusedAddress, Target, judged
from domain.rules.sources import RefusedSource, SourcePolicy, target_of
from flows.handlers.context import Context
from flows.handlers.errors import InvalidInput, Transient

FOLDER: Final = "quarantine"
MOST_REDIRECTS: Final = 3
CONNECT_SECONDS, SILENCE_SECONDS = 10.0, 30.0
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
TRY_LATER: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
# Endings that readers go by. Any other is left out of the blob's name.
ENDINGS: Final = frozenset(
    {
        ".tif",
        ".tiff",
        ".gpkg",
        ".geojson",
        ".json",
        ".zip",
        ".shz",
        ".fgb",
        ".parquet",
        ".geoparquet",
        ".pq",
        ".csv",
        ".txt",
    }
)

Resolver = Callable[[str, int], Sequence[Address]]
SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


@dataclass(frozen=True)
class FetchLimits:
    """Where sources may be fetched from, and how much of them."""

    policy: SourcePolicy
    max_bytes: int
    seconds: float
    tls: ssl.SSLContext
    resolver: Resolver


def fetch(url: str, context: Context, guard: FetchLimits | None = None) -> str:
    """Fetch the address into quarantine and return the blob's name, which reveals nothing of the address."""
    guard = guard or _guard_of_settings()
    copy = context.workdir / "fetched"
    try:
        with _answer(url, guard) as (response, target):
            _refuse_answer(response, target)
            _save(response, copy, guard, context)
        name = _name_for(url, context)
        context.storage.bronze.put_file(name, copy, context.check)
    finally:
        copy.unlink(missing_ok=True)
    return name


def resolve(host: str, port: int) -> Sequence[Address]:
    """Every address of the name, as the system resolves it."""
    return [ip_address(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class JudgedBackend(httpcore.NetworkBackend):
    """Opens httpcore's connections to judged addresses. It resolves a name once; later DNS answers change nothing."""

    def __init__(self, guard: FetchLimits) -> None:
        self._guard = guard
        self._network = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first of the name's addresses, if all of them may be called."""
        policy = self._guard.policy.addresses
        addresses = [judged(address, policy) for address in self._guard.resolver(host, port)]
        if not addresses:
            raise httpcore.ConnectError("the name has no address")
        return self._network.connect_tcp(str(addresses[0]), port, timeout, local_address, socket_options)


@contextmanager
def _answer(url: str, guard: FetchLimits) -> Iterator[tuple[httpcore.Response, Target]]:
    """Return the answer that is no redirect, and its host."""
    begun = time.monotonic()
    with httpcore.ConnectionPool(ssl_context=guard.tls, network_backend=JudgedBackend(guard)) as pool:
        for _ in range(MOST_REDIRECTS + 1):
            try:
                target = target_of(url, guard.policy)
                with pool.stream("GET", _url(target), headers=_headers(target), extensions=_patience()) as response:
                    if response.status not in REDIRECTS:
                        yield response, target
                        return
                    url = urljoin(url, _header(response, b"location"))
            except (RefusedSource, RefusedAddress) as refusal:
                raise InvalidInput(f"The source is not fetched: {refusal}") from None
            except (OSError, httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
                raise Transient(f"The source could not be fetched ({type(error).__name__}).") from None
            if time.monotonic() - begun > guard.seconds:
                break
    raise InvalidInput(f"The source's host redirects more than {MOST_REDIRECTS} times.")


def _url(target: Target) -> httpcore.URL:
    return httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)


def _headers(target: Target) -> list[tuple[bytes | str, bytes | str]]:
    """Return headers that reveal nothing of us and refuse compressed answers, which could unpack to any size."""
    return [("host", target.authority), ("accept-encoding", "identity"), ("user-agent", "Cairn-Sources/1")]


def _patience() -> dict[str, dict[str, float]]:
    return {"timeout": {"connect": CONNECT_SECONDS, "read": SILENCE_SECONDS, "write": CONNECT_SECONDS, "pool": 1.0}}


def _refuse_answer(response: httpcore.Response, target: Target) -> None:
    if response.status in TRY_LATER:
        raise Transient(f"{target.host} answers with status {response.status}.")
    if response.status != 200:
        raise InvalidInput(f"{target.host} answers with status {response.status} instead of giving the source.")
    if (encoding := _header(response, b"content-encoding")) not in ("", "identity"):
        raise InvalidInput(f"{target.host} gives the source packed as {encoding[:20]!r}, which it was asked not to do.")


def _save(response: httpcore.Response, copy: Path, guard: FetchLimits, context: Context) -> None:
    """Write the answer to the copy, up to the limits."""
    announced = _header(response, b"content-length")
    expected = int(announced) if announced.isdecimal() else None
    _refuse_beyond(expected or 0, guard)
    deadline, done = time.monotonic() + guard.seconds, 0
    with copy.open("wb") as file:
        for piece in response.iter_stream():
            context.raise_if_stopping()
            if not done and piece.lstrip()[:1] == b"<":
                raise InvalidInput("What lies at the source's address is a page or XML, not a raster or vector file.")
            done += len(piece)
            _refuse_beyond(done, guard)
            if time.monotonic() > deadline:
                raise Transient(f"The source did not arrive within {guard.seconds:,.0f} s.")
            file.write(piece)
            context.progress(done / max(done, expected or done), f"{done:,} bytes fetched")
    if not done or (expected is not None and done != expected):
        raise Transient(f"The source arrived incomplete: {done:,} bytes of {expected or 'an unknown number'}.")


def _refuse_beyond(size_bytes: int, guard: FetchLimits) -> None:
    if size_bytes > guard.max_bytes:
        raise InvalidInput(
            f"The source is larger than the {guard.max_bytes:,} bytes that are fetched. Upload it to storage instead."
        )


def _name_for(url: str, context: Context) -> str:
    """Return a generated name, the same for the same address within this attempt."""
    ending = PurePosixPath(url.partition("?")[0]).suffix.lower()
    digest = hashlib.sha256(url.encode()).hexdigest()[:16]
    return f"{FOLDER}/{context.output_prefix}/{digest}{ending if ending in ENDINGS else ''}"


def _header(response: httpcore.Response, name: bytes) -> str:
    found = (value for key, value in response.headers if key.lower() == name)
    return next(found, b"").decode("latin-1").strip()


def _guard_of_settings() -> FetchLimits:
    from flows.settings import SourceSettings

    settings = SourceSettings()
    return FetchLimits(
        policy=SourcePolicy(hosts=frozenset(settings.source_hosts)),
        max_bytes=settings.source_max_mb * 2**20,
        seconds=settings.source_seconds,
        tls=ssl.create_default_context(cafile=settings.source_ca_file),
        resolver=resolve,
    )
