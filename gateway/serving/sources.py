"""Finds the raster that a request reads: the product's file, or the mosaic of its parts. The database names it."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
import rasterio
from cachetools import LRUCache, TTLCache
from rasterio.io import DatasetReader
from starlette.concurrency import run_in_threadpool

from domain.contracts.names import is_inside
from domain.rules.places import revision_home
from domain.rules.rendering import HIGHEST_PERCENT, LOWEST_PERCENT, Range, are_colours, is_blank, range_of, usable
from flows.storage import Zones
from flows.storage.reading import gdal_name, gdal_options, is_remote
from gateway.serving.handles import Handles
from gateway.serving.lookup import PARTS, Lookup, Product
from gateway.serving.mosaics import Header, Mosaic, NoMosaic, header_of, mosaic, single
from gateway.serving.problems import NOT_FOUND, cannot_draw

_ENVIRONMENT: Final = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR", "GDAL_PAM_ENABLED": "NO", "PROJ_NETWORK": "OFF"}
_NO_NETWORK: Final = {"CPL_VSIL_CURL_ALLOWED_EXTENSIONS": "{none}"}
# A signed URL is remembered so long, and so is what was opened by it then; what remains of it is for the last reader.
OPEN_SECONDS: Final = 100.0
_FILES: Final = 1000  # remembered names and headers
_MEASURED_SIDE: Final = 256  # pixels
_ANY_RANGE: Final = (0.0, 1.0)  # of a picture that is transparent all over
_MOSAICS: Final = 16  # remembered ones: a document of ten thousand parts has some megabytes


@dataclass(frozen=True)
class Source:
    """One raster that may be opened, with what is known of its bands. `name` may be a secret.

    With `numbers` it is a virtual raster of these bands of the whole.
    """

    key: Hashable
    name: str
    handles: Handles
    environment: Mapping[str, Any]
    whole: Mosaic
    bands: list[dict[str, Any]] = field(default_factory=list)
    numbers: tuple[int, ...] | None = None

    @property
    def header(self) -> Header:
        return self.whole.header

    @contextmanager
    def opened(self) -> Iterator[DatasetReader]:
        """Lend a handle of the raster, opened by its own driver only."""
        with self.handles.lent((self.key, self.numbers), self._open) as dataset:
            yield dataset

    def named(self) -> tuple[str, Literal["GTiff", "VRT"]]:
        """Return what GDAL opens, a file or a virtual raster's document, and by which driver."""
        return (self.name, "GTiff") if self.numbers is None else (self.whole.document(self.numbers), "VRT")

    def _open(self) -> DatasetReader:
        name, driver = self.named()
        return rasterio.open(name, driver=driver)

    def narrowed(self, numbers: Sequence[int]) -> "Source":
        """Return a raster of these bands, numbered from 1; the file itself where it has no others."""
        if self.numbers is None and self.header.is_alpha_legible and list(numbers) == self.header.data:
            return self
        return replace(self, numbers=tuple(numbers))

    def legible(self) -> "Source":
        """Return all bands with a transparency that the library reads rightly."""
        is_so = self.numbers is not None or self.header.is_alpha_legible
        return self if is_so else replace(self, numbers=self.header.all)

    def measured(self, numbers: Sequence[int]) -> Range | None:
        """Measure from a small picture between which values most pixels of these bands lie."""
        with rasterio.Env(**self.environment), self.narrowed(numbers).opened() as raster:
            height, width = shrunk(raster.height, raster.width, _MEASURED_SIDE)
            pixels = raster.read(list(range(1, len(numbers) + 1)), out_shape=(len(numbers), height, width), masked=True)
        values = pixels.compressed().astype("float64")
        values = values[np.isfinite(values)]
        if not values.size:
            return None
        low, high = np.percentile(values, (LOWEST_PERCENT, HIGHEST_PERCENT))
        return usable(*((low, high) if low < high else (float(values.min()), float(values.max()))))


@dataclass(frozen=True)
class Handed:
    """A raster that another process found and judged: its name, and the driver that opens it."""

    name: str
    driver: Literal["GTiff", "VRT"]
    environment: Mapping[str, Any]
    handles: Handles

    def named(self) -> tuple[str, Literal["GTiff", "VRT"]]:
        """What GDAL opens, and by which of its drivers."""
        return self.name, self.driver

    @contextmanager
    def opened(self) -> Iterator[DatasetReader]:
        """A handle of it: what an open one has unpacked is not unpacked again."""
        with self.handles.lent((self.name, self.driver), self._open) as dataset:
            yield dataset

    def _open(self) -> DatasetReader:
        return rasterio.open(self.name, driver=self.driver)


def shrunk(height: int, width: int, longest: int) -> tuple[int, int]:
    """Height and width of a picture of these proportions whose sides are at most so long."""
    factor = min(1.0, longest / max(height, width))
    return max(1, math.ceil(height * factor)), max(1, math.ceil(width * factor))


@dataclass(frozen=True)
class Sources:
    """Finds what a product's pixels are read from."""

    zones: Zones
    handles: Handles
    _readable: TTLCache[str, str] = field(default_factory=lambda: TTLCache(_FILES, OPEN_SECONDS))
    _headers: LRUCache[str, Header] = field(default_factory=lambda: LRUCache(_FILES))
    _mosaics: LRUCache[tuple[str, ...], Mosaic] = field(default_factory=lambda: LRUCache(_MOSAICS))
    _ranges: LRUCache[Hashable, Range | None] = field(default_factory=lambda: LRUCache(_FILES))

    async def of(self, product: Product, lookup: Lookup) -> Source:
        """Return the product's raster, or answer 404 where it has neither a file nor parts of one grid."""
        if product.cog_name is not None:
            return await self._file(product, product.cog_name)
        return await self._mosaic(product, lookup)

    async def range_of(self, source: Source, numbers: Sequence[int]) -> Range | None:
        """Return the values over which a picture is stretched; None where they are shown as they are."""
        told = range_of(source.bands, numbers)
        if told is not None or are_colours(source.bands, numbers):
            return told
        measured = None if is_blank(source.bands, numbers) else await self._range_by_measuring(source, numbers)
        return measured or _ANY_RANGE

    async def _range_by_measuring(self, source: Source, numbers: Sequence[int]) -> Range | None:
        """Return the range of a product that was made without statistics."""
        question = (source.key, tuple(numbers))
        if question not in self._ranges:
            self._ranges[question] = await run_in_threadpool(source.measured, numbers)
        known: Range | None = self._ranges[question]
        return known

    async def _file(self, product: Product, name: str) -> Source:
        readable = await self._path(name)
        environment = {**_ENVIRONMENT, **_NO_NETWORK, **self.zones.reader_environment, **gdal_options(readable)}
        header = self._headers.get(name)
        if header is None:
            header = self._headers[name] = await run_in_threadpool(self._read_header, name, readable, environment)
        whole = single(gdal_name(readable), header)
        bands = header.known(product.bands)
        return Source(name, gdal_name(readable), self.handles, environment, whole, bands)

    def _read_header(self, name: str, readable: str, environment: Mapping[str, Any]) -> Header:
        opened = lambda: rasterio.open(gdal_name(readable), driver="GTiff")  # noqa: E731
        with rasterio.Env(**environment), self.handles.lent((name, None), opened) as raster:
            return header_of(raster)

    async def _mosaic(self, product: Product, lookup: Lookup) -> Source:
        names = tuple(await lookup.descriptions(product, PARTS))
        if not names:
            raise NOT_FOUND
        environment = self._environment_of_parts(await self._path(names[0]))
        home = revision_home(product.asset_id, product.ordinal, product.revision)
        made = self._mosaics.get(names) or await run_in_threadpool(self._mosaic_of_items, names, home, environment)
        if _NO_NETWORK.items() <= environment.items():  # signed names of parts end within minutes
            self._mosaics[names] = made
        bands = made.header.known(product.bands or made.bands)
        return Source(names, "", self.handles, environment, made, bands, made.header.all)

    def _mosaic_of_items(self, names: tuple[str, ...], home: str, environment: Mapping[str, Any]) -> Mosaic:
        """Join the items' files to one mosaic, refusing files of another revision."""
        silver = self.zones.silver
        lines = [line for name in names for line in silver.read_bytes(name).splitlines()]

        def named(name: str) -> str:
            if not is_inside(name, home):
                raise NOT_FOUND
            return gdal_name(silver.readable_path(name))

        try:
            with rasterio.Env(**environment):
                return mosaic(lines, named, lambda name: rasterio.open(named(name), driver="GTiff"))
        except NoMosaic as error:
            raise cannot_draw(
                f"{error} So this version is no single raster; its parts can be read one by one."
            ) from None

    async def _path(self, name: str) -> str:
        """The file's path or signed URL."""
        known: str | None = self._readable.get(name)
        if known is None:
            known = self._readable[name] = await run_in_threadpool(self.zones.silver.readable_path, name)
        return known

    def _environment_of_parts(self, readable: str) -> dict[str, Any]:
        """Where parts lie in an account, GDAL reads many files of it: those that the document names."""
        options: dict[str, Any] = {**_ENVIRONMENT, **self.zones.reader_environment, **gdal_options(readable)}
        options.pop("CPL_VSIL_CURL_ALLOWED_FILENAME", None)
        return options if is_remote(readable) else options | _NO_NETWORK
