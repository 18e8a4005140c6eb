"""OpenAPI documents, one for each audience: partners, operators, and whoever watches that we are alive.

Routes are of an audience by their tag. Data that is served (tiles, STAC, features) is described where it is served.
"""

from collections.abc import Mapping
from copy import deepcopy
from enum import StrEnum
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi

from domain.contracts.problems import Problem
from domain.contracts.rendering import MEDIA_TYPE

Json = dict[str, Any]


class Audience(StrEnum):
    PARTNER = "partner"
    OPERATOR = "operator"
    PROBE = "probe"


TAGS: Mapping[Audience, frozenset[str]] = {
    Audience.PARTNER: frozenset({"platform", "batch", "assets", "ogc"}),
    Audience.OPERATOR: frozenset({"status", "admin", "proxy"}),
    Audience.PROBE: frozenset({"probes"}),
}
WORDS: Mapping[Audience, str] = {
    Audience.PARTNER: "What partners' systems submit, ask and decide. The platform is the credential's.",
    Audience.OPERATOR: "What operators read of every platform, with the ids of runs and flow runs.",
    Audience.PROBE: "Whether this process is alive, ready, and would take submissions.",
}
# What every platform's submission has. Its own references and version stand beside, by the names of its registry row.
SUBMISSION_SCHEMA: Json = {
    "properties": {
        "data_type": {"type": "string", "enum": ["raster", "vector"]},
        "operation": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,62}$"},
        "source": {"type": "string", "minLength": 1, "maxLength": 900, "description": "container/path"},
        "parameters": {"type": "object", "maxProperties": 50, "description": "Inputs of the workflow, by name"},
        "callback_url": {"type": "string", "maxLength": 2000},
        "priority": {"type": "string", "enum": ["low", "normal", "high"]},
    },
    "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "object"}]},
}
SCHEMES: Json = {
    "api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
}
REFUSAL: Json = {
    "description": "Refused: `code` says why to programs, `detail` to people",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
LATER: Json = {**REFUSAL, "headers": {"Retry-After": {"schema": {"type": "integer", "minimum": 0}}}}


def document(app: FastAPI, audience: Audience) -> Json:
    """The audience's document, made of the routes that are there."""
    made = get_openapi(
        title=f"Cairn for {audience.value}s",
        version=app.version,
        description=WORDS[audience],
        routes=app.routes,
    )
    made["paths"] = {
        path: operations
        for path, listed in made["paths"].items()
        if (operations := {verb: one for verb, one in listed.items() if set(one.get("tags", ())) & TAGS[audience]})
    }
    for operations in made["paths"].values():
        for operation in operations.values():
            _complete(operation, audience)
    made.setdefault("components", {})["securitySchemes"] = SCHEMES
    schemas = made["components"].setdefault("schemas", {})
    schemas["Problem"] = Problem.model_json_schema()
    made["components"]["schemas"] = _needed(made["paths"], schemas)
    return made


def _complete(operation: Json, audience: Audience) -> None:
    """Add what all operations have in common: refusals, and the need of a credential."""
    responses = operation["responses"]
    responses.pop("422", None)
    responses |= {"4XX": deepcopy(REFUSAL), "429": deepcopy(LATER), "503": deepcopy(LATER)}
    if audience is not Audience.PROBE:
        operation["security"] = [{name: []} for name in SCHEMES]


def _needed(paths: Json, schemas: Json) -> Json:
    """Return only the schemas that these paths refer to."""
    found: dict[str, Any] = {}
    waiting = [paths]
    while waiting:
        for name in _references(waiting.pop()) - found.keys():
            found[name] = schemas[name]
            waiting.append(schemas[name])
    return dict(sorted(found.items()))


def _references(part: Any) -> set[str]:
    if isinstance(part, dict):
        own = {part["$ref"].rpartition("/")[2]} if isinstance(part.get("$ref"), str) else set()
        return own.union(*map(_references, part.values()))
    return set().union(*map(_references, part)) if isinstance(part, list) else set()


def documents(app: FastAPI) -> APIRouter:
    """The documents, as JSON: a page that shows them would load other sites' script where the console is signed in.

    They are made when first asked for, then kept.
    """
    router = APIRouter(include_in_schema=False)
    kept: dict[Audience, Json] = {}

    @router.get("/openapi.json")
    @router.get("/openapi/{audience}.json")
    async def openapi(audience: Audience = Audience.PARTNER) -> Json:
        if audience not in kept:
            kept[audience] = document(app, audience)
        return kept[audience]

    return router
