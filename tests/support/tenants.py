"""The ways by which a partner can name data, as the applications' own documents list them; each has to be judged here.

A parameter that is new stands in neither table, and the matrix asks for a decision: does it name data, and of which
kind, or does it only say how something that is named elsewhere is shown?
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, quote_plus

Json = dict[str, Any]
METHODS: Final = ("get", "head", "post", "put", "patch", "delete")


@dataclass(frozen=True)
class Operation:
    """One operation of one application's document. `prefix` is where the front door has it."""

    app: str
    method: str
    path: str
    described: Json
    document: Json

    def __str__(self) -> str:
        return f"{self.app} {self.method} {self.path}"

    def parameters(self) -> Iterator[tuple[str, str]]:
        """Where each stands, and its name; fields of a body by their names."""
        for one in self.described.get("parameters", ()):
            yield one["in"], one["name"].lower()
        yield from (("body", name) for name in self._fields())

    def _fields(self) -> list[str]:
        content = self.described.get("requestBody", {}).get("content", {})
        schema: Json = next(iter(content.values())).get("schema", {}) if content else {}
        while "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return list(schema.get("properties", {}))


def operations(app: str, document: Json, prefix: str = "") -> Iterator[Operation]:
    """All of a document, by their addresses at the front door."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield Operation(app, method.upper(), f"{prefix}{path}", item[method], document)


# What a parameter names, by where it stands and what it is called. `Names` has one of each kind.
NAMING: Final[Mapping[tuple[str, str], str]] = {
    ("path", "asset_id"): "asset",
    ("path", "collectionid"): "asset",
    ("path", "collection_id"): "asset",
    ("path", "ordinal"): "ordinal",
    ("path", "item_id"): "item",
    ("path", "file_name"): "file",
    ("path", "request_id"): "request",
    ("path", "job_id"): "request",
    ("path", "run_id"): "run",
    ("path", "callback_id"): "request",
    ("query", "file"): "file_address",
    ("query", "flow_run_id"): "run",
    ("query", "request_id"): "request",
    ("query", "asset_id"): "asset",
    ("query", "subject"): "subject",
    ("query", "hash"): "checksum",
    ("query", "ref"): "ref",
    ("query", "after"): "asset",
    ("query", "ids"): "item",
    ("query", "collections"): "asset",
    ("query", "filter"): "filter",
    ("query", "query"): "query",
    ("query", "token"): "token",
    ("query", "intersects"): "place",
    ("query", "bbox"): "box",
    ("header", "idempotency-key"): "key",
    ("header", "if-match"): "tag",
    ("header", "if-none-match"): "tag",
    ("body", "request_id"): "request",
    ("body", "client_id"): "client",
    ("body", "source"): "upload",
    ("body", "parameters"): "parameters",
    ("body", "inputs"): "inputs",
    ("body", "submissions"): "submissions",
    ("body", "content_hash"): "checksum",
    ("body", "ids"): "ids",
    ("body", "collections"): "collections",
    ("body", "filter"): "filter_json",
    ("body", "query"): "query_json",
    ("body", "token"): "token",
    ("body", "intersects"): "place_json",
    ("body", "bbox"): "box_json",
}
# What only says how, how much or in which words: of these no value is anybody's.
PLAIN: Final[Mapping[str, frozenset[str]]] = {
    "numbers of a page": frozenset({"limit", "offset", "window", "wait", "state", "status"}),
    "a version of the asset that the path names": frozenset({"version"}),
    "a feature of the layer that the path names, and what is shown of it": frozenset(
        {"itemid", "properties", "sortby", "simplify", "bbox-only", "datetime", "geom-column", "datetime-column", "f",
         "filter-lang", "filter-crs", "fields", "conf"}
    ),
    "how pixels are read and drawn": frozenset(
        {"tilematrixsetid", "z", "x", "y", "format", "tilesize", "tile_format", "minzoom", "maxzoom", "bidx", "buffer",
         "padding", "nodata", "unscale", "resampling", "reproject", "colormap_name", "colormap", "rescale",
         "color_formula", "return_mask", "crs", "coord_crs", "dst_crs", "max_size", "height", "width", "lon", "lat",
         "categorical", "c", "p", "histogram_bins", "histogram_range"}
    ),
    "words and choices": frozenset(
        {"clearance", "data_type", "reason", "clearance_level", "comment", "priority", "operation", "outputs",
         "response", "revision", "expires_at", "processid"}
    ),
    "public: what is offered to every partner alike": frozenset({"process_id"}),
    "an address that is called, and read by nobody": frozenset({"callback_url", "subscriber"}),
}  # fmt: skip


def judged(where: str, name: str) -> bool:
    """Whether somebody has decided what this parameter is."""
    return (where, name) in NAMING or any(name in names for names in PLAIN.values())


@dataclass(frozen=True)
class Names:
    """One of each kind of data, all of one tenant, or none of anybody's."""

    asset: str
    ordinal: str
    item: str
    file: str
    request: str
    run: str
    client: str
    key: str
    tag: str
    checksum: str
    reference: str
    upload: str
    quarantine: str
    product: str
    table: str
    box: str

    def said(self, kind: str) -> Any:
        """The name as a parameter of this kind has it."""
        made: dict[str, Any] = {
            "file_address": f"files/{self.file}",
            "subject": f"asset/{self.asset}",
            "ref": f"dataset_id={self.reference}",
            "filter": f"id='{self.item}' OR collection='{self.asset}'",
            "filter_json": {"op": "or", "args": [_equal("id", self.item), _equal("collection", self.asset)]},
            "query": f'{{"platform:dataset_id": {{"eq": "{self.asset}"}}}}',
            "query_json": {"platform:dataset_id": {"eq": self.asset}},
            "token": f"next:{self.asset.encode().hex()}:{self.item.encode().hex()}",
            "ids": [self.item],
            "collections": [self.asset],
            "parameters": self.upload,
            "inputs": self.upload,
            "submissions": self.upload,
            "box_json": [float(side) for side in self.box.split(",")],
            "place": json.dumps(self._place()),
            "place_json": self._place(),
        }
        return made[kind] if kind in made else getattr(self, kind)

    def _place(self) -> Json:
        west, south, east, north = (float(side) for side in self.box.split(","))
        ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
        return {"type": "Polygon", "coordinates": [ring]}

    def spellings(self) -> list[str]:
        """All ways to write one of these, longest first: to be taken out of answers that repeat what was asked."""
        plain = [str(each) for each in vars(self).values() if len(str(each)) > 3]
        shown = [repr(each)[1:-1] for each in plain]  # as refusals repeat them
        plain += [
            *shown,
            *(json.dumps(each)[1:-1] for each in [*plain, *shown]),
            *(quote(each, safe="") for each in plain),
        ]
        plain += [quote_plus(self.said(kind)) for kind in ("filter", "query", "ref", "place")]
        coded = [each.encode().hex() for each in (self.asset, self.item)]
        return sorted({*plain, *coded}, key=len, reverse=True)


def _equal(name: str, value: str) -> Json:
    return {"op": "=", "args": [{"property": name}, value]}
