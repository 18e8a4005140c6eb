"""The judges of STAC documents: the standard's schema as pystac carries it, stac-pydantic, and our own models."""

from typing import Any

import pystac
import stac_pydantic
from pystac.validation.stac_validator import JsonSchemaSTACValidator

from flows.handlers.stac.models import Collection, StacItem

_SCHEMAS = JsonSchemaSTACValidator()


def judge_item(document: dict[str, Any]) -> StacItem:
    """Raise unless all three take it; ours must also write what it has read."""
    _SCHEMAS.validate_core(document, pystac.STACObjectType.ITEM, "1.1.0")
    stac_pydantic.Item.model_validate(document)
    assert pystac.Item.from_dict(document, migrate=False, preserve_dict=True).id == document["id"]
    judged = StacItem.model_validate(document)
    assert judged.document() == document
    return judged


def judge_collection(document: dict[str, Any]) -> Collection:
    """Raise unless all three take it."""
    _SCHEMAS.validate_core(document, pystac.STACObjectType.COLLECTION, "1.1.0")
    stac_pydantic.Collection.model_validate(document)
    return Collection.model_validate(document)
