"""Every operation of the gateway's documents, and a good call of each: made of the documents' own examples."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gateway.documents import Audience, document
from tests.gateway import world
from tests.gateway.world import Known
from tests.support.platform import Platform

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
    }


def operations(platform: Platform) -> Iterator[Operation]:
    """All of all documents, as the application's routes make them."""
    app = platform.gateway.app  # type: ignore[attr-defined]
    for audience in Audience:
        for path, methods in document(app, audience)["paths"].items():
            for method, described in methods.items():
                yield Operation(audience, method.upper(), path, described)
