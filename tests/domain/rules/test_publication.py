"""What readers of the catalogue get to see of staged items and of their collection."""

from datetime import UTC, datetime
from typing import Any

import pytest

from domain.rules.publication import WORLD, Holdings, collection, item_id, public_item
from tests.support.stac import judge_collection

SHA256 = "1220" + "ab" * 32
STAGED: dict[str, Any] = {
    "id": "a-3-r1",
    "collection": "a",
    "bbox": [1.0, 2.0, 3.0, 4.0],
    "assets": {
        "data": {"href": "cairn://silver/secret/name.tif", "type": "image/tiff; profile=x", "file:checksum": SHA256},
        "thumbnail": {"href": "cairn://silver/secret/small.png", "type": "image/png", "file:checksum": SHA256},
        "unknown": {"href": "cairn://silver/secret/other.bin"},
    },
    "links": [
        {"rel": "derived_from", "href": "cairn://bronze/uploads/upload.tif"},
        {"rel": "license", "href": "https://example.org/license"},
    ],
}


def published(**changes: Any) -> dict[str, Any]:
    return public_item(STAGED | changes, "https://maps.example/", "a-3-r1", 3)


def test_no_storage_name_is_published() -> None:
    item = published()
    assert "secret" not in str(item)
    assert "cairn://" not in str(item)
    assert item["assets"]["data"]["href"] == "https://maps.example/tiles/a/data.tif?version=3"
    assert item["assets"]["data"]["file:checksum"] == SHA256
    assert [(link["rel"], link["href"]) for link in item["links"]] == [
        ("collection", "https://maps.example/stac/collections/a"),
        ("license", "https://example.org/license"),
    ]
    assert STAGED["assets"]["data"]["href"].startswith("cairn://")


def test_other_files_are_named_by_digest_and_left_out_without_one() -> None:
    assets = published()["assets"]
    assert assets["thumbnail"]["href"] == "https://maps.example/tiles/a/files/thumbnail-abababababababab.png?version=3"
    assert set(assets) == {"data", "thumbnail", "tiles"}


def test_vector_table_has_a_download_address() -> None:
    data = {"href": "cairn://silver/x.parquet", "type": "application/vnd.apache.parquet", "file:checksum": SHA256}
    assert published(assets={"data": data})["assets"]["data"]["href"].endswith("/tiles/a/data.parquet?version=3")


@pytest.mark.parametrize(("name", "ending"), [("x/a.b.csv", ".csv"), ("x.y/plain", "")])
def test_data_of_an_unknown_kind_is_offered_as_a_plain_file(name: str, ending: str) -> None:
    data = {"href": f"cairn://silver/{name}", "type": "text/csv", "file:checksum": SHA256}
    href = published(assets={"data": data})["assets"]["data"]["href"]
    assert href == f"https://maps.example/tiles/a/files/data-abababababababab{ending}?version=3"


def test_a_part_offers_its_own_file_and_no_tiles_of_the_whole() -> None:
    assets = published(id="a-3-r1-0_0")["assets"]
    assert assets["data"]["href"].startswith("https://maps.example/tiles/a/files/data-abab")
    assert "tiles" not in assets


def test_an_item_is_named_after_its_revision() -> None:
    assert item_id("a", 3, 1) == "a-3-r1"


def test_collection_describes_extent_time_and_projections_of_its_items() -> None:
    since, until = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    held = Holdings([(170.0, 0.0, 175.0, 1.0), (-175.0, 0.0, -170.0, 2.0)], since, until, ["EPSG:4326"])
    made = collection("a", {"b": "2", "a": "1"}, "Hub", held)
    judge_collection(made)
    assert (made["id"], made["title"]) == ("a", "Hub: a 1, b 2")
    assert made["extent"]["spatial"]["bbox"] == [[170, 0, -170, 2]]
    assert made["extent"]["temporal"]["interval"] == [["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"]]
    assert made["summaries"] == {"proj:code": ["EPSG:4326"]}


def test_a_collection_that_holds_nothing_is_valid() -> None:
    made = collection("a", {}, "Hub", Holdings())
    judge_collection(made)
    assert made["extent"] == {"spatial": {"bbox": [list(WORLD)]}, "temporal": {"interval": [[None, None]]}}


def test_title_from_a_workflow_replaces_the_generated_one() -> None:
    made = collection("a", {}, "Hub", Holdings(), {"id": "b", "title": "Alps", "license": "x"})
    assert (made["id"], made["title"], made["license"]) == ("a", "Alps", "other")
    assert made["description"] == "Approved versions of one dataset of Hub."
