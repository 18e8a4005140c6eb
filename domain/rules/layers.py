"""How people's words about a layer become STAC. Pure."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def described_collection(collection: Mapping[str, Any], words: Mapping[str, Any] | None) -> Json:
    """The collection with its published title, description, keywords and license."""
    if words is None:
        return dict(collection)
    said = {
        "title": words["title"],
        "description": words["description"] or words["title"],  # STAC wants a description that is not empty
        "keywords": list(words["keywords"]),
        "license": words["license"],
    }
    if words["attribution"]:
        said["providers"] = [{"name": words["attribution"], "roles": ["producer"]}]
    return {**collection, **said}


def described_item(item: Mapping[str, Any], words: Mapping[str, Any] | None) -> Json:
    """The item with the words among its properties."""
    if words is None:
        return dict(item)
    said = {name: words[name] for name in ("title", "description", "keywords", "attribution") if words[name]}
    return {**item, "properties": {**item["properties"], **said}}
