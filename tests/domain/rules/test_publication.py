"""What readers of the catalogue get to see of a staged item."""

from domain.rules.publication import WORLD, collection, public_item

STAGED = {
    "id": "a-0-r1",
    "bbox": [1.0, 2.0, 3.0, 4.0],
    "assets": {"data": {"href": "cairn://silver/secret/name.tif", "type": "image/tiff", "file:checksum": "12"}},
    "links": [
        {"rel": "derived_from", "href": "cairn://bronze/uploads/upload.tif"},
        {"rel": "license", "href": "https://example.org/license"},
    ],
}


def test_no_storage_name_is_published() -> None:
    item = public_item(STAGED, "https://maps.example/", "a", 3)
    assert "cairn://" not in str(item)
    assert item["assets"]["data"]["href"] == "https://maps.example/tiles/a/data.tif?version=3"
    assert item["assets"]["data"]["file:checksum"] == "12"
    assert [link["rel"] for link in item["links"]] == ["license"]
    assert STAGED["assets"]["data"]["href"].startswith("cairn://")  # type: ignore[index]


def test_a_collection_names_its_refs_and_covers_its_item() -> None:
    made = collection("a", {"b": "2", "a": "1"}, "Hub", [1, 2, 3, 4])
    assert (made["id"], made["title"]) == ("a", "Hub: a 1, b 2")
    assert made["extent"]["spatial"]["bbox"] == [[1, 2, 3, 4]]
    assert collection("a", {}, "Hub", None)["extent"]["spatial"]["bbox"] == [WORLD]
