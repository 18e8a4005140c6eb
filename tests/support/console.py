"""The smallest real assembly with a console: domain, serving and gateway as servers on loopback over one database.

What workers do is done here by the real handlers, and told to the domain as a flow run tells it.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from pydantic import HttpUrl, SecretStr

from deployments import sample
from domain.app import create_app as create_domain
from domain.security import secret_hash
from flows.handlers.raster.declarations import (
    CreateCogParams,
    RegisterItemParams,
    ValidateParams,
    create_cog,
    stac_register_item,
    validate,
)
from gateway.app import create_app as create_gateway
from gateway.serving.app import create_app as create_serving
from gateway.serving.settings import ServingSettings
from gateway.settings import GatewaySettings
from tests.support.acts import Flow, call, dispatched
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, add_clients, domain_settings
from tests.support.rasters import bronze, context_in

SIZE = 640


class Server(uvicorn.Server):
    """A server beside others in one process: signals are pytest's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(frozen=True)
class Assembly:
    """Where the console is, and the acts of those who are not at it."""

    url: str
    domain: Domain
    storage: Path

    async def ask(self, client_id: str | None, method: str, path: str, **more: Any) -> httpx.Response:
        """One request to the gateway as this client, or as anybody."""
        headers = {"X-API-Key": f"secret-{client_id}"} if client_id else {}
        async with httpx.AsyncClient(base_url=self.url, headers=headers) as http:
            return await http.request(method, path, **more)

    async def submit(self, version: str, source: str, **changes: Any) -> str:
        """A partner's submission through the gateway; gives the asset's id."""
        body: dict[str, Any] = {
            "dataset_id": "elevation",
            "resource_id": "dem",
            "version_id": version,
            "data_type": "raster",
            "operation": "ingest",
            "source": source,
        }
        answer = await self.ask("ddh-dev", "POST", "/api/platform/submit", json=body | changes)
        assert answer.status_code == 202, answer.text
        query = "select asset_id from app.requests where request_id = %s"
        [(asset_id,)] = self.domain.rows(query, answer.json()["request_id"])
        return str(asset_id)

    async def approve_as_partner(self, asset_id: str, clearance: str) -> None:
        """Somebody whom the partner named for it approves what was sent last, at the gateway."""
        self.domain.rows(
            "insert into app.clients (client_id, role, platform_id, scopes, display_name, secret_hash)"
            " values ('ddh-lead', 'partner', 'ddh', '{review}', 'The lead', %s) on conflict do nothing returning 1",
            secret_hash("secret-ddh-lead"),
        )
        [(request_id,)] = self.domain.rows(
            "select request_id from app.revisions where asset_id = %s order by created_at desc limit 1", asset_id
        )
        body = {"request_id": str(request_id), "clearance_level": clearance}
        answer = await self.ask("ddh-lead", "POST", "/api/platform/approve", json=body)
        assert answer.status_code == 200, answer.text

    def require(self, approvals: int, days: int | None = None) -> None:
        """How many approvals the partner's platform asks for, and how long each holds."""
        query = (
            "update app.platforms set approvals_required = %s, approval_days = %s where platform_id = 'ddh' returning 1"
        )
        assert self.domain.rows(query, approvals, days)

    async def started(self) -> tuple[Flow, dict[str, Any]]:
        """The one attempt that is due for a partner, begun; with its work order."""
        internal = "select run_id from app.runs join app.requests using (request_id) where is_internal"
        exports = {run_id for (run_id,) in self.domain.rows(internal)}
        [flow] = [each for each in await dispatched(self.domain) if each.run_id not in exports]
        answer = await flow.start()
        assert answer.status_code == 200, answer.text
        return flow, answer.json()

    async def waiting(self, name: str, source: str | None = None) -> str:
        """A version of a dataset of this name that awaits its decision, with no pixels to look at."""
        asset_id = await self.submit("first", source or f"up/{name}.tif", dataset_id=name)
        flow, _ = await self.started()
        committed = await flow.commit()
        assert committed.status_code == 200, committed.text
        return asset_id

    async def processed(self, version: str, source: str, seed: int, **changes: Any) -> str:
        """Submit, do the work, commit it."""
        asset_id = await self.submit(version, source, **changes)
        await self._work(*await self.started(), source, seed)
        return asset_id

    async def ran(self, source: str, seed: int) -> dict[str, Any]:
        """The same as an operator's own run; gives what its creation answered."""
        order = {"workflow_id": "raster_ingest", "inputs": {"source": source}}
        made: dict[str, Any] = (await call(self.domain, "operator", "POST", "/runs", order)).json()
        [flow] = [each for each in await dispatched(self.domain) if str(each.run_id) == made["run_id"]]
        await self._work(flow, (await flow.start()).json(), source, seed)
        return made

    async def _work(self, flow: Flow, order: dict[str, Any], source: str, seed: int) -> None:
        outputs, artifacts = await asyncio.to_thread(self._made, order["facts"], source, seed)
        committed = await flow.commit(outputs, artifacts=artifacts)
        assert committed.status_code == 200, committed.text

    def _made(self, facts: dict[str, Any], source: str, seed: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        path = bronze(self.storage, source)
        if not path.exists():
            sample.write(path, seed=seed, size=SIZE)
        prefix = f"assets/{facts['asset_id']}/{facts['version_ordinal']}-r{facts['revision']}/a1"
        context = context_in(self.storage, output_prefix=prefix, facts=facts)
        checked = validate(ValidateParams(source=source), context)
        product = create_cog(CreateCogParams(source=source), context)
        item = stac_register_item(
            RegisterItemParams(product=product, source=source, source_sha256=checked.sha256), context
        )
        outputs = {
            "cog": product.cog,
            "item_id": item.item_id,
            "collection_id": item.collection_id,
            "bounds": product.bounds_wgs84,
            "bands": [band.model_dump(mode="json") for band in product.bands],
            "validation": checked.model_dump(mode="json"),
        }
        return outputs, [each.model_dump(mode="json") for each in [*product.artifacts, *item.artifacts]]


@asynccontextmanager
async def running_console(database: TestDatabase, storage: Path, **changes: Any) -> AsyncIterator[Assembly]:
    """All three servers, each with its own role in the database."""
    add_clients(database)
    sockets = {name: _listening() for name in ("domain", "serving", "gateway")}
    urls = {name: f"http://127.0.0.1:{bound.getsockname()[1]}" for name, bound in sockets.items()}
    settings = {
        "public_url": HttpUrl(urls["gateway"]),
        "development": True,
        "prefect_ui_url": HttpUrl("http://prefect.test"),
    }
    domain = create_domain(domain_settings(database, storage, **(settings | changes)))
    serving = create_serving(
        ServingSettings(database_serving_url=SecretStr(database.url("cairn_serving")), storage_root=storage)
    )
    gateway = create_gateway(
        GatewaySettings(
            database_gateway_url=SecretStr(database.url("cairn_gateway")),
            domain_url=HttpUrl(urls["domain"]),
            serving_url=HttpUrl(urls["serving"]),
            service_token=SecretStr("secret-gateway"),
        )
    )
    async with AsyncExitStack() as stack:
        for name, app in (("domain", domain), ("serving", serving), ("gateway", gateway)):
            await stack.enter_async_context(_served(app, sockets[name]))
        inside = httpx.ASGITransport(domain, raise_app_exceptions=False)
        yield Assembly(urls["gateway"], Domain(inside, database, domain.state.service), storage)
        domain.state.console.state.pages.close()


@asynccontextmanager
async def _served(app: FastAPI, bound: socket.socket) -> AsyncIterator[None]:
    server = Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2))
    task = asyncio.create_task(server.serve([bound]))
    while not server.started:
        assert not task.done(), task.exception()
        await asyncio.sleep(0.02)
    try:
        yield
    finally:
        server.should_exit = True
        await task


def _listening() -> socket.socket:
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    return bound
