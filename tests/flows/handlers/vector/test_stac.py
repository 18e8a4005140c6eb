"""The staged item of a layer: valid by two independent validators, with its columns and where it came from."""

import json
from pathlib import Path

import pystac
import stac_pydantic
from pystac.extensions.table import TableExtension
from pystac.validation.stac_validator import JsonSchemaSTACValidator

from flows.handlers.vector.declarations import CONVERTED, VectorItemParams, stac_register_item
from tests.flows.handlers.stac.test_staging import FACTS
from tests.flows.handlers.vector.conftest import NewContext


def test_the_item_is_valid_and_describes_the_table(tmp_path: Path, new_context: NewContext) -> None:
    made = stac_register_item(VectorItemParams(product=CONVERTED, source="up/roads.gpkg"), new_context(facts=FACTS))
    item = json.loads((tmp_path / "silver" / made.item).read_bytes())
    JsonSchemaSTACValidator().validate_core(item, pystac.STACObjectType.ITEM, "1.1.0")
    stac_pydantic.Item.model_validate(item)
    table = TableExtension.ext(pystac.Item.from_dict(item, migrate=False, preserve_dict=True))
    assert [(column.name, column.col_type, column.description) for column in table.columns or []][:2] == [
        ("name", "text", "Name"),
        ("lanes", "integer", "lanes"),
    ]
    assert item["properties"]["table:row_count"] == CONVERTED.feature_count
    assert item["properties"]["proj:code"] == "EPSG:4326"
    assert item["assets"]["data"]["file:checksum"] == "1220" + CONVERTED.artifacts[0].sha256
    assert [link["href"] for link in item["links"] if link["rel"] == "derived_from"] == ["cairn://bronze/up/roads.gpkg"]
    assert item["properties"]["platform:request_id"] == "request-1"
