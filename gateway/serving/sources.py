"""Which raster a request reads: the product's file, or the mosaic of its parts. Its name comes from the database."""

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import rasterio
from cachetools import LRUCache, TTLCache
from rasterio.io import DatasetReader
from starlette.concurrency import run_in_threadpool

from domain.contracts.names import is_inside
from domain.rules.places import revision_home
from flows.storage import Zones
from flows.storage.reading import gdal_name, gdal_options, is_remote
from gateway.serving.handles import Handles
from gateway.serving.lookup import PARTS, Lookup, Product
from gateway.serving.mosaics import Mosaic, NoMosaic, mosaic
from gateway.serving.problems import NOT_FOUND

_ENVIRONMENT: Final = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR", "GDAL_PAM_ENABLED": "NO", "PROJ_NETWORK": "OFF"}
_NO_NETWORK: Final = {"CPL_VSIL_CURL_ALLOWED_EXTENSIONS": "{none}"}
# A signed URL is good for longer than twice this: it is remembered so long, and so is what was opened by it then.
OPEN_SECONDS: Final = 300.0
_FILES: Final = 1000  # remembered names
_MOSAICS: Final = 16  # remembered ones: a document of ten thousand parts has some megabytes


@dataclass(frozen=True)
class Source:
    """One raster that may be opened, and what is known of its bands. `name` may be a secret."""

    key: Hashable
    name: str
    driver: str
    handles: Handles
    environment: Mapping[str, Any]
    bands: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def opened(self) -> Iterator[DatasetReader]:
        """A handle of it, opened by nothing but its driver."""
        with self.handles.lent(self.key, lambda: rasterio.open(self.name, driver=self.driver)) as dataset:
            yield dataset


@dataclass(frozen=True)
class Sources:
    """Finds what a product's pixels are read from."""

    zones: Zones
    handles: Handles
    _readable: TTLCache[str, str] = field(default_factory=lambda: TTLCache(_FILES, OPEN_SECONDS))
    _mosaics: LRUCache[tuple[str, ...], Mosaic] = field(default_factory=lambda: LRUCache(_MOSAICS))

    async def of(self, product: Product, lookup: Lookup) -> Source:
        """The product's raster; no such thing where it has neither a file nor parts of one grid."""
        if product.cog_name is not None:
            return await self._file(product, product.cog_name)
        return await self._mosaic(product, lookup)

    async def _file(self, product: Product, name: str) -> Source:
        readable = await self._path(name)
        environment = {**_ENVIRONMENT, **_NO_NETWORK, **self.zones.reader_environment, **gdal_options(readable)}
        return Source(name, gdal_name(readable), "GTiff", self.handles, environment, product.bands or [])

    async def _mosaic(self, product: Product, lookup: Lookup) -> Source:
        names = tuple(await lookup.descriptions(product, PARTS))
        if not names:
            raise NOT_FOUND
        environment = self._environment_of_parts(await self._path(names[0]))
        home = revision_home(product.asset_id, product.ordinal, product.revision)
        made = self._mosaics.get(names) or await run_in_threadpool(self._joined, names, home, environment)
        if _NO_NETWORK.items() <= environment.items():  # signed names of parts end within the hour
            self._mosaics[names] = made
        return Source(names, made.document, "VRT", self.handles, environment, made.bands)

    def _joined(self, names: tuple[str, ...], home: str, environment: Mapping[str, Any]) -> Mosaic:
        """What the items' files make together. A file of another revision is none of theirs, whatever an item says."""
        silver = self.zones.silver
        lines = [line for name in names for line in silver.read_bytes(name).splitlines()]

        def named(name: str) -> str:
            if not is_inside(name, home):
                raise NoMosaic("A part is a file of something else.")
            return gdal_name(silver.readable_path(name))

        try:
            with rasterio.Env(**environment):
                return mosaic(lines, named, lambda name: rasterio.open(named(name), driver="GTiff"))
        except NoMosaic:
            raise NOT_FOUND from None

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
