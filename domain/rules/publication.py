"""What the catalogue shows of approved revisions: pure functions from staged JSON to published JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from domain.contracts.artifacts import Bounds
from domain.contracts.names import is_inside
from domain.rules.extents import union
from domain.rules.places import revision_home
from flows.handlers.stac.models import Collection, Extent, SpatialExtent, TemporalExtent

Json = dict[str, Any]
WORLD: Bounds = (-180.0, -90.0, 180.0, 90.0)
_MULTIHASH_PREFIX: Final = 4
_KEY_LENGTH: Final = 16
OURS: Final = "cairn://silver/"  # what hrefs of staged items begin with
# The product as a whole has an address of its own, by its kind.
_WHOLE_NAMES: Final = {"image/tiff": "data.tif", "application/vnd.apache.parquet": "data.parquet"}


@dataclass(frozen=True)
class Holdings:
    """What the catalogue holds of an asset."""

    boxes: Sequence[Bounds] = ()
    since: datetime | None = None
    until: datetime | None = None
    projections: Sequence[str] = field(default_factory=tuple)


def item_id(asset_id: str, ordinal: int, revision: int) -> str:
    """The catalogue's name for one revision. Items of its parts begin with it and go on after a dash."""
    return f"{asset_id}-{ordinal}-r{revision}"


def is_own(staged: Mapping[str, Any], asset_id: str, ordinal: int, revision: int) -> bool:
    """Whether a staged item describes this revision, or a part of it, by files of this revision and no others."""
    whole, home = item_id(asset_id, ordinal, revision), revision_home(asset_id, ordinal, revision)
    named, files = str(staged.get("id")), [str(asset.get("href")) for asset in staged.get("assets", {}).values()]
    links = [str(link.get("href")) for link in staged.get("links", [])]
    return (
        staged.get("collection") == asset_id
        and (named == whole or named.startswith(f"{whole}-"))
        and all(href.startswith(OURS) and is_inside(href.removeprefix(OURS), home) for href in files)
        and all(href.startswith("cairn://") for href in links)
    )


def public_item(staged: Mapping[str, Any], public_url: str, whole: str, ordinal: int) -> Json:
    """The staged item with addresses that readers can use in place of internal storage names.

    `whole` is the id of the revision's own item; one of a part of it has another.
    """
    root = public_url.rstrip("/")
    base = f"{root}/tiles/{staged['collection']}"
    assets = {
        name: {**asset, "href": f"{base}/{path}?version={ordinal}"}
        for name, asset in staged["assets"].items()
        if (path := _served_at(name, asset, is_whole=staged["id"] == whole))
    }
    if staged["id"] == whole:
        assets["tiles"] = {
            "href": f"{base}/WebMercatorQuad/tilejson.json?version={ordinal}",
            "type": "application/json",
            "title": "TileJSON of this version",
            "roles": ["tiles"],
        }
    # `derived_from` names the partner's upload, which readers of the catalogue can neither reach nor need to know.
    links = [link for link in staged.get("links", []) if not str(link.get("href", "")).startswith("cairn://")]
    collection_link = {"rel": "collection", "href": f"{root}/stac/collections/{staged['collection']}"}
    return {**staged, "assets": assets, "links": [collection_link | {"type": "application/json"}, *links]}


def _served_at(name: str, asset: Mapping[str, Any], *, is_whole: bool) -> str | None:
    """Where below the asset's tiles the file is served: the product by its one name, others by what they hold."""
    kind = str(asset.get("type", "")).partition(";")[0]
    if is_whole and name == "data" and kind in _WHOLE_NAMES:
        return _WHOLE_NAMES[kind]
    checksum = asset.get("file:checksum")
    if checksum is None:
        return None
    _, dot, ending = asset["href"].rpartition("/")[2].rpartition(".")
    return f"files/{quote(name, safe='')}-{file_key(checksum[_MULTIHASH_PREFIX:])}{dot}{ending if dot else ''}"


def file_key(sha256: str) -> str:
    """Return as much of a file's digest as its address shows: enough to find it within one revision."""
    return sha256[:_KEY_LENGTH]


def collection(
    asset_id: str, refs: Mapping[str, str], platform: str, held: Holdings, words: Mapping[str, str] | None = None
) -> Json:
    """The collection that holds an asset's versions. `words` are what a workflow called it."""
    title = ", ".join(f"{name} {value}" for name, value in sorted(refs.items()))
    named = {"title": f"{platform}: {title}", "description": f"Approved versions of one dataset of {platform}."}
    made = Collection(
        id=asset_id,
        **{**named, **{name: text for name, text in (words or {}).items() if name in named}},
        extent=Extent(
            spatial=SpatialExtent(bbox=[union(held.boxes) or WORLD]),
            temporal=TemporalExtent(interval=[(held.since, held.until)]),
        ),
        summaries={"proj:code": list(held.projections)} if held.projections else None,
    )
    return made.document()
