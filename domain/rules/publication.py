"""What the catalogue shows of an approved revision: pure functions from stored JSON to published JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]
WORLD = [-180.0, -90.0, 180.0, 90.0]


def item_id(asset_id: str, ordinal: int, revision: int) -> str:
    """The catalogue's name for one revision."""
    return f"{asset_id}-{ordinal}-r{revision}"


def public_item(staged: Mapping[str, Any], public_url: str, asset_id: str, ordinal: int) -> Json:
    """The staged item with addresses that readers can use in place of internal storage names."""
    base = f"{public_url.rstrip('/')}/tiles/{asset_id}"
    data = {**staged["assets"]["data"], "href": f"{base}/data.tif?version={ordinal}"}
    tiles = {
        "href": f"{base}/WebMercatorQuad/tilejson.json?version={ordinal}",
        "type": "application/json",
        "title": "TileJSON of this version",
        "roles": ["tiles"],
    }
    # `derived_from` names the partner's upload, which readers of the catalogue can neither reach nor need to know.
    links = [link for link in staged.get("links", []) if not str(link.get("href", "")).startswith("cairn://")]
    return {**staged, "assets": {"data": data, "tiles": tiles}, "links": links}


def collection(asset_id: str, refs: Mapping[str, str], platform: str, bbox: Sequence[float] | None) -> Json:
    """The collection that holds an asset's versions."""
    title = ", ".join(f"{name} {value}" for name, value in sorted(refs.items()))
    return {
        "type": "Collection",
        "stac_version": "1.1.0",
        "id": asset_id,
        "title": f"{platform}: {title}",
        "description": f"Approved versions of one dataset of {platform}.",
        "license": "other",
        "extent": {
            "spatial": {"bbox": [list(bbox or WORLD)]},
            "temporal": {"interval": [[None, None]]},
        },
        "links": [],
    }
