"""The domain and serving over one migrated database: products that real handlers made, decided by real decisions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg.types.json import Jsonb
from pydantic import SecretStr

from benchmarks._products import moved
from deployments import sample
from domain.contracts.artifacts import Artifact
from flows.handlers.raster.declarations import CogResult, CreateCogParams, RegisterItemParams, create_cog
from flows.handlers.stac.staging import register_item
from gateway.serving.app import create_app
from gateway.serving.lookup_cache import LookupCache
from gateway.serving.settings import ServingSettings
from tests.support.acts import Flow, dispatched, submit
from tests.support.clock import eventually
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, running_domain
from tests.support.rasters import bronze, context_in

SIZE = 512
SOURCE = "up/sample.tif"
LAYER = {
    "columns": [{"name": "name", "title": "Name", "type": "text"}],
    "crs": "EPSG:4326",
    "geometry_type": "Polygon",
    "feature_count": 3,
    "bounds_wgs84": [14.0, 47.0, 14.3, 47.1],
}
TABLE = """
create table geo.{0} (fid bigint primary key, name text, geom geometry(Geometry, 4326));
insert into geo.{0} select n, 'field ' || n, st_makeenvelope(14 + n * 0.1, 47, 14.05 + n * 0.1, 47.1, 4326)
    from generate_series(0, 2) n;
grant select on geo.{0} to cairn_serving;
"""


@dataclass(frozen=True)
class Library:
    """Both services, and one raster that all rasters are copies of."""

    domain: Domain
    serving: httpx.ASGITransport
    root: Path
    cog: CogResult

    def reader(self, client_id: str | None) -> httpx.AsyncClient:
        """Who asks serving; None is anybody."""
        headers = {"X-API-Key": f"secret-{client_id}"} if client_id else {}
        return httpx.AsyncClient(transport=self.serving, base_url="http://serving", headers=headers)

    @property
    def memory(self) -> LookupCache:
        """What serving remembers."""
        made: LookupCache = self.serving.app.state.lookup._memory  # type: ignore[attr-defined]
        return made

    async def heard(self) -> None:
        """Wait until serving has been told of what was decided."""
        await eventually(lambda: not len(self.memory._kept))

    async def raster(self, name: str, label: str = "1", source: str = SOURCE) -> str:
        """A processed version of the raster called so, with its item; returns the asset's id."""
        return await self._processed(name, label, source, "raster", self._raster_files)

    async def vector(self, name: str, label: str = "1") -> str:
        """A processed version of a layer of three fields."""
        return await self._processed(name, label, f"up/{label}.gpkg", "vector", self._vector_files)

    async def _processed(self, name: str, label: str, source: str, kind: str, files: Any) -> str:
        refs = {"dataset_id": name, "resource_id": kind}
        accepted = await submit(self.domain, refs=refs, version_label=label, source=source, data_type=kind)
        assert accepted.status_code == 202, accepted.text
        flow = await self._flow(accepted.json()["request_id"])
        [(asset_id, ordinal, revision)] = self.domain.rows(
            "select asset_id, ordinal, revision from app.requests where request_id = %s", accepted.json()["request_id"]
        )
        outputs, artifacts = files(str(asset_id), ordinal, revision)
        answer = await flow.commit(outputs, artifacts=[one.model_dump(mode="json") for one in artifacts])
        assert answer.status_code == 200, answer.text
        return str(asset_id)

    async def _flow(self, request_id: str) -> Flow:
        """The request's own run, started. Exports that wait beside it are claimed and left alone."""
        [(run_id,)] = self.domain.rows("select run_id from app.runs where request_id = %s", request_id)
        [flow] = [each for each in await dispatched(self.domain) if each.run_id == run_id]
        answer = await flow.start()
        assert answer.status_code == 200, answer.text
        return flow

    def _raster_files(self, asset_id: str, ordinal: int, revision: int) -> tuple[dict[str, Any], list[Artifact]]:
        facts = {"asset_id": asset_id, "version_ordinal": ordinal, "revision": revision, "version_label": "1"}
        home = f"assets/{asset_id}/{ordinal}-r{revision}/a1"
        told = {**facts, "request_id": "r", "refs": {"dataset_id": asset_id}}
        context = context_in(self.root, output_prefix=home, facts=told)
        cog = moved(self.cog, self.root, home)
        item = register_item(RegisterItemParams(product=cog, source=SOURCE), context)
        bands = [band.model_dump(mode="json") for band in self.cog.bands]
        outputs = {"bands": bands, "bounds": self.cog.bounds_wgs84, "validation": {"sha256": "f" * 64}}
        return outputs, [*cog.artifacts, *item.artifacts]

    def _vector_files(self, asset_id: str, ordinal: int, revision: int) -> tuple[dict[str, Any], list[Artifact]]:
        name = f"assets/{asset_id}/{ordinal}-r{revision}/a1/layer.parquet"
        content = f"PAR1 {name} PAR1".encode()
        path = self.root / "silver" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        digest = sha256(content).hexdigest()
        with psycopg.connect(self.domain.database.url()) as connection:
            table = f"v_{digest[:24]}"
            connection.execute(TABLE.format(table).encode())
            connection.execute(
                "insert into geo.layers (table_name, product, run_id, description, is_ready)"
                " select %s, %s, run_id::text, %s, true from app.runs join app.requests using (request_id)"
                " where (asset_id, ordinal, revision) = (%s, %s, %s)",
                [table, name, Jsonb(LAYER), asset_id, ordinal, revision],
            )
        file = {"zone": "silver", "name": name, "media_type": "application/vnd.apache.parquet", "sha256": digest}
        made = Artifact(role="geoparquet", size_bytes=len(content), **file)
        return {"validation": {"sha256": "f" * 64}}, [made]


@asynccontextmanager
async def library(database: TestDatabase, root: Path) -> AsyncIterator[Library]:
    """Both services as their own database roles, serving with everything that it remembers."""
    async with running_domain(database, root, quota_cache_seconds=0) as domain:
        url = SecretStr(database.url("cairn_serving"))
        app = create_app(ServingSettings(database_serving_url=url, storage_root=root))
        async with app.router.lifespan_context(app):
            yield Library(domain, httpx.ASGITransport(app, raise_app_exceptions=False), root, made_raster(root))


def made_raster(root: Path) -> CogResult:
    """The sample as a product, by the handler that makes products."""
    sample.write(bronze(root, SOURCE), seed=1, size=SIZE)
    return create_cog(CreateCogParams(source=SOURCE), context_in(root, output_prefix="rasters/sample"))
