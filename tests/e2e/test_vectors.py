"""Vectors on the whole stack: each format to an approved layer, and files that must come to nothing but a sentence.

All are sent at once, so that the stack works on them together.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import morecantile
import pytest
import shapely

from flows.storage import Zones
from tests.support import vectors
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack
FORMATS = ("gpkg", "geojson", "fgb", "zip", "parquet", "csv")
COUNT = 40
SQUARES = vectors.squares(COUNT, side=0.001)
BOW_TIE = shapely.from_wkt("POLYGON ((14.73 47.49, 14.74 47.5, 14.74 47.49, 14.73 47.5, 14.73 47.49))")
SQL_WORDS = ['x"; drop table app.runs;--', "select", "geom", "fid", "GEOM", "Ünïcode", "名前"]
WAIT_SECONDS = 300.0
TABLES = "select l.table_name, l.description from geo.layers l join app.runs r on r.run_id::text = l.run_id"


@dataclass(frozen=True)
class Sender:
    """A partner, and what it has sent."""

    stack: RunningStack
    requests: dict[str, str]

    def send(self, file: Path, **parameters: str) -> None:
        source = f"uploads/ddh/{file.name}"
        Zones.local(self.stack.folder / "storage").bronze.put_file(source, file)
        body = {
            "dataset_id": file.name,
            "resource_id": "vectors",
            "version_id": "1",
            "data_type": "vector",
            "operation": "ingest",
            "source": source,
            "parameters": parameters,
        }
        with self.stack.partner() as gateway:
            accepted = gateway.post("/api/platform/submit", json=body).raise_for_status()
        self.requests[file.name] = accepted.json()["request_id"]

    def ended(self, name: str) -> dict[str, Any]:
        """The request's last word."""
        deadline = time.monotonic() + WAIT_SECONDS
        with self.stack.partner() as gateway:
            while time.monotonic() < deadline:
                status: dict[str, Any] = gateway.get(f"/api/platform/status/{self.requests[name]}").json()
                if status["status"] in {"completed", "failed", "cancelled"}:
                    return status
                time.sleep(0.5)
        raise TimeoutError(f"{name} did not end in time.")


@pytest.fixture(scope="module")
def sender(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Sender:
    """Everything is on its way before the first test asks."""
    folder, sender = tmp_path_factory.mktemp("vectors"), Sender(stack, {})
    for ending in FORMATS:
        crs = {"source_crs": "EPSG:4326"} if ending == "csv" else {}
        sender.send(vectors.write(folder / f"fields.{ending}", SQUARES), **crs)
    sender.send(mixed(folder / "mixed.gpkg"))
    sender.send(vectors.write(folder / "mars.gpkg", [shapely.Point(5e6, 9e6)]))
    sender.send(vectors.bomb(folder / "bomb.zip"))
    return sender


def mixed(path: Path) -> Path:
    """Mixed and invalid geometries, under names that mean something to a database, in a file that is misnamed."""
    shapes = [BOW_TIE, shapely.Point(14.73, 47.49), SQUARES[0], shapely.MultiPolygon(SQUARES[:2])]
    features = [
        {"type": "Feature", "properties": {name: f"{name} {n}" for name in SQL_WORDS}, "geometry": json.loads(shape)}
        for n, shape in enumerate([*map(shapely.to_geojson, shapes), "null"])
    ]
    return vectors.geojson(path, features)


@pytest.mark.parametrize("ending", FORMATS)
def test_every_vector_format_becomes_a_layer(stack: RunningStack, sender: Sender, ending: str) -> None:
    status = sender.ended(f"fields.{ending}")
    assert status["status"] == "completed", status
    result = status["result"]
    assert result["outputs"]["feature_count"] == COUNT
    assert "v_" not in json.dumps(result["outputs"])
    asset_id, gateway = result["asset_id"], stack.url("gateway")
    items, tile = f"{gateway}/vector/collections/{asset_id}/items", tile_address(gateway, asset_id)
    for address in (items, tile, f"{gateway}/stac/collections/{asset_id}"):
        assert httpx.get(address).status_code == 404
    reviewer = {"Authorization": f"Bearer {stack.credentials()['reviewer']['token']}"}
    assert httpx.get(f"{items}?version=0", headers=reviewer).json()["numberMatched"] == COUNT
    decision = {"request_id": status["request_id"], "clearance_level": "public"}
    approved = httpx.post(f"{gateway}/api/platform/approve", json=decision, headers=reviewer)
    assert approved.status_code == 200, approved.text
    assert_served(gateway, asset_id)


def assert_served(gateway: str, asset_id: str) -> None:
    """Features, tiles, catalogue and file, to the public."""
    [found] = httpx.get(f"{gateway}/vector/collections/{asset_id}/items?lanes=7").json()["features"]
    assert found["properties"]["name"] == "field 7"
    shape = shapely.from_geojson(json.dumps(found["geometry"]))
    assert shapely.equals_exact(shape, SQUARES[7], 1e-9, normalize=True)
    answer = httpx.get(tile_address(gateway, asset_id))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/vnd.mapbox-vector-tile")
    assert b"field 7" in answer.content
    [item] = httpx.get(f"{gateway}/stac/collections/{asset_id}/items").json()["features"]
    assert [column["name"] for column in item["properties"]["table:columns"]][:2] == ["name", "lanes"]
    assert httpx.get(item["assets"]["data"]["href"]).content.startswith(b"PAR1")


def tile_address(gateway: str, asset_id: str) -> str:
    tile = morecantile.tms.get("WebMercatorQuad").tile(vectors.WEST, vectors.SOUTH, 8)
    return f"{gateway}/tiles/{asset_id}/WebMercatorQuad/{tile.z}/{tile.x}/{tile.y}"


@pytest.mark.parametrize(("name", "told"), [("mars.gpkg", "outside of the Earth"), ("bomb.zip", "would grow from")])
def test_hostile_vector_file_is_refused_with_a_sentence(
    stack: RunningStack, sender: Sender, name: str, told: str
) -> None:
    status = sender.ended(name)
    assert (status["status"], status["problem"]["code"]) == ("failed", "invalid-input")
    assert told in status["problem"]["detail"]
    assert str(stack.folder) not in json.dumps(status)
    assert stack.rows(f"{TABLES} where r.request_id = %s", status["request_id"]) == []


def test_repairable_vector_file_is_repaired_and_the_repairs_reported(stack: RunningStack, sender: Sender) -> None:
    status = sender.ended("mixed.gpkg")
    assert status["status"] == "completed", status
    outputs = status["result"]["outputs"]
    assert (outputs["feature_count"], outputs["geometry_type"]) == (5, "Geometry")
    assert outputs["repairs"] == {"repaired": 1, "rejected": 0, "without_geometry": 1, "flattened": 0}
    assert any("it holds GeoJSON" in warning for warning in outputs["validation"]["warnings"])
    [(table, description)] = stack.rows(f"{TABLES} where r.request_id = %s", status["request_id"])
    names = {column["title"]: column["name"] for column in description["columns"]}
    assert set(names) == set(SQL_WORDS)
    assert (names["select"], names[SQL_WORDS[0]]) == ("select", "x_drop_table_app_runs")
    valid = f"select count(*), count(geom), bool_and(st_isvalid(geom)) from geo.{table}"  # noqa: S608 - generated
    assert stack.rows(valid) == [(5, 4, True)]
    assert stack.rows("select count(*) > 0 from app.runs") == [(True,)]


def test_the_loader_is_known_to_workers_of_light_work_only(stack: RunningStack) -> None:
    """GDAL's processes open what senders wrote: neither their worker nor they are told how to reach the database."""
    workers = {worker["pool"]: worker["pid"] for worker in stack.json("status")["workers"]}
    told = {
        pool: b"CAIRN_DATABASE_LOADER_URL=" in Path(f"/proc/{pid}/environ").read_bytes()
        for pool, pid in workers.items()
    }
    assert told == {"light": True, "gdal": False}
