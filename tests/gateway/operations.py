"""Every operation of the gateway's documents, and a good call of each: made of the documents' own examples."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx

from gateway.documents import Audience, document
from gateway.forwarding.proxy_rules import METHODS, ProxyTarget
from tests.gateway import world
from tests.gateway.world import Known
from tests.support.platform import Platform
from tests.support.receiver import Reply, running_receiver

Making = Callable[..., Awaitable[Known]]
# The state that a request has to be in for the operation to be done; others are read of what is approved.
NEEDS: dict[str, Making] = {
    "/api/platform/approve": world.processed,
    "/api/platform/reject": world.processed,
    "/api/platform/cancel": world.submitted,
    "DELETE /api/assets/{asset_id}": world.processed,
    "DELETE /api/assets/{asset_id}/versions/{ordinal}": world.processed,
    "DELETE /ogc/jobs/{job_id}": world.submitted,
}
# Operations that need the scope `review`: asked by a person whom the partner named.
DECISIONS = {
    "POST /api/platform/approve",
    "POST /api/platform/reject",
    "POST /api/platform/unpublish",
    "POST /api/assets/{asset_id}/clearance",
    "DELETE /api/assets/{asset_id}",
    "DELETE /api/assets/{asset_id}/versions/{ordinal}",
}
IDS = {"request_id", "asset_id", "ordinal", "job_id", "flow_run_id"}


PROXIED = {"target": "engine", "path": "runs/1"}  # what `with_target` lets operators reach


@dataclass(frozen=True)
class Operation:
    audience: Audience
    method: str
    path: str
    described: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def owner(self) -> str | None:
        """Whose call it is."""
        if self.audience is not Audience.PARTNER:
            return "operator" if self.audience is Audience.OPERATOR else None
        return "ddh-reviewer" if str(self) in DECISIONS else "ddh-dev"

    @property
    def needs(self) -> Making:
        return NEEDS.get(str(self)) or NEEDS.get(self.path) or world.approved

    @property
    def ids(self) -> set[str]:
        """Which ids of ours a call names."""
        named = {one["name"] for one in self.described.get("parameters", ()) if one["name"] in IDS}
        return named | ({"request_id"} & set(self.example() or ()))

    def example(self) -> dict[str, Any] | None:
        """The body that the document shows."""
        content = self.described.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            return None
        [first, *_] = content["schema"].get("examples") or [content["example"]]
        found: dict[str, Any] = first
        return found

    def call(self, ids: dict[str, str]) -> dict[str, Any]:
        """Arguments of a request that names these ids and whatever else the operation requires."""
        listed = self.described.get("parameters", ())
        path = self.path
        for one in listed:
            if one["in"] == "path":
                path = path.replace(f"{{{one['name']}}}", ids.get(one["name"], "nothing"))
        query = {one["name"]: _value(one, ids) for one in listed if one["in"] == "query" and one.get("required")}
        headers = {"If-Match": "*"} if any(one["name"] == "if-match" for one in listed) else {}
        body = self.example()
        if body is not None and "request_id" in body:
            body = body | {"request_id": ids["request_id"]}
        return {"method": self.method, "url": path, "params": query, "headers": headers, "json": body}


@asynccontextmanager
async def with_target() -> AsyncIterator[dict[str, ProxyTarget]]:
    """An internal service, as the setting that lets operators reach it."""
    async with running_receiver() as inside:
        inside.reply = lambda _request: Reply(200, {"content-type": "text/plain"})
        url = inside.url.removesuffix("/hook")
        yield {"engine": ProxyTarget.model_validate({"url": url, "paths": ["**"], "methods": list(METHODS)})}


def _value(parameter: dict[str, Any], ids: dict[str, str]) -> str:
    return ids.get(parameter["name"], "because it is so")


def ids_of(known: Known, path: str) -> dict[str, str]:
    """What the operation calls the ids: a job is a run to operators, and a request in OGC's words."""
    return {
        "request_id": known.request_id,
        "asset_id": known.asset_id,
        "ordinal": str(known.ordinal),
        "job_id": known.request_id if path.startswith("/ogc") else known.run_id,
        "flow_run_id": known.flow_run_id,
        "process_id": "raster_ingest",
        **PROXIED,
    }


# Routes that no document describes, each for its reason: data is described where it is served, the console is for
# browsers, the documents do not list themselves, and probes are listed once, under /api.
SERVED = {
    f"{method} {path}"
    for path in ("/tiles/{path:path}", "/vector", "/vector/{path:path}", "/stac", "/stac/{path:path}")
    for method in ("GET", "HEAD")
} | {"POST /stac/search"}
CONSOLE = {f"{method} {path}" for path in ("/console", "/console/{path:path}") for method in ("GET", "HEAD", "POST")}
UNDESCRIBED = (
    SERVED
    | CONSOLE
    | {"GET /openapi.json", "GET /openapi/{audience}.json", "GET /livez", "GET /readyz"}
    | {"GET /metrics"}
)

REFUSALS = {401: "unauthenticated", 403: "forbidden"}
ALIASES = {"GET /ogc/": "GET /ogc"}  # other ways to write what a document describes


def routes(platform: Platform) -> set[str]:
    """Every way to ask that the application has, from its own table of routes."""
    app = platform.gateway.app  # type: ignore[attr-defined]
    return {
        f"{method} {context.path}"
        for route in app.routes
        for context in (route.effective_route_contexts() if hasattr(route, "effective_route_contexts") else [route])
        for method in context.methods or ()
    }


def described(platform: Platform) -> dict[str, Operation]:
    """The operations of all documents by the routes that they describe: documents write each part of a path alike."""
    found = {str(operation).replace("/{path}", "/{path:path}"): operation for operation in operations(platform)}
    aliases = {alias: replace(found[name], path=alias.partition(" ")[2]) for alias, name in ALIASES.items()}
    return found | aliases


def operations(platform: Platform) -> Iterator[Operation]:
    """All of all documents, as the application's routes make them."""
    app = platform.gateway.app  # type: ignore[attr-defined]
    for audience in Audience:
        for path, methods in document(app, audience)["paths"].items():
            for method, described in methods.items():
                yield Operation(audience, method.upper(), path, described)


def code_of(answer: httpx.Response) -> str:
    """Why it was refused; an answer to HEAD has no body, and says it by its status alone."""
    told = answer.json() if answer.request.method != "HEAD" else {"code": REFUSALS.get(answer.status_code)}
    return str(told["code"])
