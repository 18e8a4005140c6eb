"""A house with two tenants, one of whom has something of every kind, and all the ways to ask for it by its name."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import morecantile
import psycopg
import pytest

from flows.storage import LocalStore
from gateway.app import create_app
from gateway.documents import Audience, document
from gateway.domain_client.client import DomainClient
from tests.domain.audiences import DECISIONS
from tests.gateway import world
from tests.gateway.serving.promise import LAT, LON
from tests.support import tenants
from tests.support.acts import call, decide
from tests.support.cluster import TestDatabase
from tests.support.library import Library
from tests.support.platform import Platform, gateway_settings
from tests.support.tenants import NAMING, Names, Operation

OWNER, STRANGER = ("ddh-dev", "ddh-reviewer"), ("arcgis-dev", "arcgis-reviewer")
_PLACE = morecantile.tms.get("WebMercatorQuad").tile(LON, LAT, 13)
TILE = {"tileMatrixSetId": "WebMercatorQuad", "z": "13", "x": f"{_PLACE.x}", "y": f"{_PLACE.y}", "format": "png"}
SHOWN = TILE | {"width": "32", "height": "32", "lon": f"{LON}", "lat": f"{LAT}", "itemId": "1"}
OTHER_IDS = {"process_id": "raster_ingest"}
# Who asks: what needs the scope `review` is asked by those who have it.
DECIDES = re.compile(r"/(approve|reject|unpublish|withdraw|clearance)$|^(gateway|domain) DELETE /api/(v1/)?assets")
MINE: ContextVar[bool] = ContextVar("mine", default=False)
LONG = {"reads_burst": 1e6, "client_calls_burst": 1e6, "platform_calls_burst": 1e6}
VARYING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|own-\d+|\d{4}-\d\d-\d\d[T ][0-9:.]+(Z|\+[0-9:]+)?"
)


@dataclass
class House:
    """Gateway, domain and serving over one database, where one tenant has something of every kind."""

    made: Library
    platform: Platform
    raster: Names
    vector: Names
    scratch: Names  # what an operator's own run makes: nobody's among partners
    asked: int = 0

    def theirs(self, operation: Operation) -> list[Names]:
        """What is not the stranger's, as far as this application can have it."""
        return [self.raster, self.vector, *([self.scratch] if operation.app in {"domain", "gateway"} else [])]

    async def ask(
        self, clients: tuple[str, str], operation: Operation, names: Names, named: str = ""
    ) -> httpx.Response:
        """The operation with these names in its path, and in one parameter more."""
        self.asked += 1
        client_id = clients[1] if DECIDES.search(str(operation)) else clients[0]
        arguments = _arguments(operation, names, named, _own(clients[0].partition("-")[0], self.asked))
        if operation.app == "domain":
            async with self.made.domain.as_(client_id) as http:
                return await http.request(operation.method, **arguments)
        return await world.call(self.platform, client_id, operation.method, arguments.pop("url"), **arguments)


def _arguments(operation: Operation, names: Names, named: str, own: dict[str, str]) -> dict[str, Any]:
    listed = {one["name"].lower(): one for one in operation.described.get("parameters", ())}
    query: dict[str, Any] = {
        name: "because it is so" for name, one in listed.items() if one["in"] == "query" and one.get("required")
    }
    query |= {"version": names.ordinal} if "version" in listed else {}
    headers, body = {"If-Match": "*"} if "if-match" in listed else {}, _body(operation, names, own)
    where, _, name = named.partition(" ")
    value = names.said(NAMING[where, name]) if named else None
    if where == "query":
        query[name] = value
    elif where == "header":
        headers = {name: str(value)}
    elif where == "body" and body is not None:
        body |= _put(name, value, body)
    return {"url": _path(operation, names), "params": query, "headers": headers} | (
        {} if body is None else {"json": body}
    )


def _path(operation: Operation, names: Names) -> str:
    url = operation.path
    for one in operation.described.get("parameters", ()):
        if one["in"] == "path":
            kind = NAMING.get(("path", one["name"].lower()))
            value = names.said(kind) if kind else (SHOWN | OTHER_IDS).get(one["name"], "x")
            url = url.replace(f"{{{one['name']}}}", str(value))
    return url


def _own(platform: str, number: int) -> dict[str, str]:
    """What a platform submits of its own, each time something else."""
    words = {
        "ddh": {"dataset_id": f"own-{number}", "resource_id": "dem", "version_id": "1"},
        "arcgis": {"item_id": f"own-{number}", "layer_index": "0", "version": "1"},
    }
    return words[platform] | {"source": f"uploads/{platform}/own.tif"}


def _body(operation: Operation, names: Names, own: dict[str, str]) -> dict[str, Any] | None:
    """A good body, of the asker's own but for what it names."""
    if "requestBody" not in operation.described:
        return None
    whole = own | {"data_type": "raster", "operation": "ingest"}
    bodies: dict[str, dict[str, Any]] = {
        "submit": whole,
        "batch": {"submissions": [{"submission": whole}]},
        "execution": {"inputs": own},
        "search": {},
    }
    if (made := bodies.get(operation.path.rpartition("/")[2])) is not None:
        return made
    decision = {"revision": 1, "clearance_level": "ouo", "reason": "because it is so", "request_id": names.request}
    fields = {name for where, name in operation.parameters() if where == "body"}
    return {name: value for name, value in decision.items() if name in fields}


def _put(name: str, value: Any, body: dict[str, Any]) -> dict[str, Any]:
    """The field, or what stands for it where it holds several."""
    if name == "inputs":
        return {"inputs": body["inputs"] | {"source": value}}
    if name == "submissions":
        return {"submissions": [{"submission": body["submissions"][0]["submission"] | {"source": value}}]}
    return {name: {"source": value} if name == "parameters" else value}


def cells(operation: Operation) -> Iterator[str]:
    """What of the operation names data: its path, and each further parameter."""
    naming = [(where, name) for where, name in operation.parameters() if (where, name) in NAMING]
    if any(where == "path" for where, _ in naming):
        yield ""
    yield from (f"{where} {name}" for where, name in naming if where != "path")


@dataclass
class Rounds:
    """What each of several calls was told, and how many questions it took: to databases and to storage."""

    asked: int = 0
    ended: list[tuple[Any, int]] = field(default_factory=list)

    def begin(self) -> None:
        self.asked = 0

    def end(self, told: Any) -> None:
        self.ended.append((told, self.asked))


@contextmanager
def working() -> Iterator[Rounds]:
    """Counts the statements of both drivers and what is read of folders."""
    rounds = Rounds()

    def counted(original: Any) -> Any:
        def asks(*given: Any, **named: Any) -> Any:
            rounds.asked += MINE.get()  # loops work beside, in contexts of their own
            return original(*given, **named)

        return asks

    with pytest.MonkeyPatch.context() as patch:
        for kind, name in (
            (psycopg.AsyncCursor, "execute"),
            (asyncpg.Connection, "_do_execute"),
            (LocalStore, "_path"),
        ):
            patch.setattr(kind, name, counted(getattr(kind, name)))
        # A connection that nobody used for a moment is asked first whether it is there: that hangs on the clock alone.
        patch.setattr("domain.shared.database_connection.IDLE_SECONDS", float("inf"))
        token = MINE.set(True)
        yield rounds
        MINE.reset(token)


def outcome(answer: httpx.Response, names: Names) -> tuple[int, str, dict[str, str]]:
    """What can be told from an answer, without what was asked for."""
    passing = {"date", "server", "content-length"}
    headers = {name: value for name, value in answer.headers.items() if name not in passing}
    return answer.status_code, _bare(answer.text, names), {name: _bare(value, names) for name, value in headers.items()}


def _bare(text: str, names: Names) -> str:
    for spelling in names.spellings():
        text = text.replace(spelling, "<it>")
    return VARYING.sub("<any>", text)


@asynccontextmanager
async def in_front(made: Library, database: TestDatabase) -> AsyncIterator[Platform]:
    """The gateway before both."""
    app = create_app(gateway_settings(database, **LONG))
    async with app.router.lifespan_context(app):
        inside = httpx.AsyncClient(transport=made.domain.transport, base_url="http://domain")
        serving = httpx.AsyncClient(transport=made.serving, base_url="http://serving")
        app.state.gateway = replace(app.state.gateway, domain=DomainClient(inside, "secret-gateway"), serving=serving)
        yield Platform(httpx.ASGITransport(app, raise_app_exceptions=False), made.domain)


async def furnished(made: Library, platform: Platform) -> House:
    """Something of every kind of one tenant's, cleared for itself; and of another's something for everybody."""
    raster, vector = await made.raster("theirs"), await made.vector("theirs-too")
    for asset_id in (raster, vector):
        assert (await decide(made.domain, asset_id, 0, "approve", clearance_level="ouo")).status_code == 200
    folders = "update app.platforms set source_prefixes = array['uploads/' || platform_id || '/'] returning 1"
    assert made.domain.rows(folders)
    for name in ("uploads/ddh/secret.tif", f"quarantine/assets/{raster}/0-r1/a1/secret.tif", "uploads/arcgis/own.tif"):
        made.domain.service.zones.bronze.write_bytes(name, b"secret")
    order = {"workflow_id": "raster_ingest", "inputs": {"source": "uploads/ddh/secret.tif"}}
    ran = (await call(made.domain, "operator", "POST", "/runs", order)).json()
    known = await _names(made, raster)
    scratch = replace(known, asset=ran["asset_id"], item=f"{ran['asset_id']}-0-r1", request=ran["request_id"])
    await _introduce(made, platform)
    return House(made, platform, known, await _names(made, vector), replace(scratch, run=ran["run_id"]))


async def _introduce(made: Library, platform: Platform) -> None:
    """Have each door know who comes: before the first body of a credential it asks for its holder once more."""
    for client_id in (*OWNER, *STRANGER):
        assert (await world.call(platform, client_id, "GET", "/api/assets")).status_code == 200
    for client_id in (*OWNER, *STRANGER, "gateway"):
        async with made.domain.as_(client_id) as http:
            await http.get("/api/v1/audit")  # refused to all of these, once it is known who they are
        assert made.domain.service.authentication.knows(f"secret-{client_id}", "127.0.0.1")


async def _names(made: Library, asset_id: str) -> Names:
    query = (
        "select q.request_id, r.run_id, a.sha256, a.name, a.role from app.requests q join app.runs r using (request_id)"
        " join app.artifacts a using (run_id) where q.asset_id = %s and a.role in ('cog', 'geoparquet')"
    )
    [(request_id, run_id, sha256, product, role)] = made.domain.rows(query, asset_id)
    key = f"key-of-{asset_id}"
    assert made.domain.rows(
        "update app.requests set idempotency_key = %s where asset_id = %s returning 1", key, asset_id
    )
    tables = made.domain.rows("select table_name from geo.layers where product = %s", product)
    async with made.reader("ddh-dev") as owner:
        file = "data.tif" if role == "cog" else "data.parquet"
        tag = (await owner.head(f"/tiles/{asset_id}/{file}?version=0")).headers["etag"]
    return Names(
        asset=asset_id,
        ordinal="0",
        item=f"{asset_id}-0-r1",
        file=f"data-{sha256[:16]}{Path(product).suffix}",
        request=str(request_id),
        run=str(run_id),
        client="ddh-dev",
        key=key,
        tag=tag,
        checksum=sha256,
        reference="theirs" if role == "cog" else "theirs-too",
        upload="uploads/ddh/secret.tif",
        quarantine=f"quarantine/assets/{asset_id}/0-r1/a1/secret.tif",
        product=product,
        table=tables[0][0] if tables else "v_" + "0" * 24,
        box="12,47,13,48",
    )


def absent(names: Names) -> Names:
    """Of the same form, and nobody's: the last letter of each is another."""
    other = {
        name: re.sub(r"[0-9a-z](?=[^0-9a-z]*(\.[a-z]+)?$)", lambda found: "e" if found[0] != "e" else "d", value)
        for name, value in vars(names).items()
        if name not in {"ordinal", "box"}
    }
    return replace(names, **other, box="100,10,101,11")


def reachable(house: House) -> list[Operation]:
    """What partners may call: their own document of the gateway, all that is served, and decisions at the domain."""
    gateway = house.platform.gateway.app  # type: ignore[attr-defined]
    serving: Any = house.made.serving.app
    listed = [
        *tenants.operations("gateway", document(gateway, Audience.PARTNER)),
        *tenants.operations("serving", serving.openapi()),
        *tenants.operations("features", serving.state.features.openapi(), "/vector"),
        *tenants.operations("catalogue", serving.state.catalog.openapi(), "/stac"),
    ]
    domain = tenants.operations("domain", house.made.domain.transport.app.openapi())  # type: ignore[attr-defined]
    return [*listed, *(each for each in domain if (each.method, each.path) in DECISIONS)]


def closed(house: House) -> list[Operation]:
    """What partners may not call at all."""
    gateway, domain = house.platform.gateway.app, house.made.domain.transport.app  # type: ignore[attr-defined]
    inside = [each for each in tenants.operations("domain", domain.openapi()) if each.path.startswith("/api/")]
    return [
        *tenants.operations("gateway", document(gateway, Audience.OPERATOR)),
        *(each for each in inside if (each.method, each.path) not in DECISIONS),
    ]
