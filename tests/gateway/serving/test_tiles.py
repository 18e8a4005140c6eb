"""Tiles through the app, real bytes from a real product: the right pixels, for the right readers, and nothing else."""

import io
import warnings
from pathlib import Path
from typing import Any

import httpx
import morecantile
import numpy as np
import pytest
import rasterio
from rasterio.errors import NotGeoreferencedWarning, RasterioIOError
from rasterio.io import MemoryFile

from deployments import sample
from gateway.edge.cross_origin import is_data
from gateway.serving.handles import Handles
from gateway.serving.mosaics import Grid, Header, single
from gateway.serving.sources import Source
from gateway.serving.tiles import ProductReader
from tests.gateway.serving.conftest import SIZE, Served

OWNER = {"Authorization": "Bearer ddh-client"}
STRANGER = {"X-API-Key": "arcgis-client"}
REVIEWER = {"Authorization": "bearer a-reviewer"}
WORKER = {"X-API-Key": "a-worker"}
PIXEL = sample.pick_pixel(1, SIZE)
LON, LAT = sample.lonlat_of(*PIXEL)
# Zoom 15 is finer than the data, so the tile's pixel at this place shows the very pixel that was picked.
TILE = morecantile.tms.get("WebMercatorQuad").tile(LON, LAT, 15)
TILE_PATH = f"WebMercatorQuad/{TILE.z}/{TILE.x}/{TILE.y}"


def decoded(content: bytes) -> Any:
    with warnings.catch_warnings(), MemoryFile(content) as file:
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with file.open() as image:
            return image.read()


def value_in(tile: Any) -> int:
    """The tile's value at the picked pixel's centre."""
    bounds = morecantile.tms.get("WebMercatorQuad").bounds(TILE)
    side = tile.shape[-1]
    column = int((LON - bounds.left) / (bounds.right - bounds.left) * side)
    row = int((bounds.top - LAT) / (bounds.top - bounds.bottom) * side)
    return int(tile[0, row, column])


async def test_a_public_tile_shows_the_right_pixel(client: httpx.AsyncClient) -> None:
    answer = await client.get(f"/tiles/open/{TILE_PATH}.tif")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/tiff; application=geotiff")
    tile = decoded(answer.content)
    assert tile.dtype == np.uint16
    assert value_in(tile) == sample.value_at(2, *PIXEL)


async def test_a_png_is_stretched_over_nearly_all_values(client: httpx.AsyncClient) -> None:
    answer = await client.get(f"/tiles/open/{TILE_PATH}.png")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    image = decoded(answer.content)
    assert (image.dtype, image.shape[0]) == (np.uint8, 2)
    data = sample.pixels(2, SIZE)
    low, high = np.percentile(data[data != 0], (2, 98))
    expected = np.clip((sample.value_at(2, *PIXEL) - low) / (high - low), 0, 1) * 255
    assert value_in(image) == pytest.approx(expected, abs=3)


async def test_nodata_is_transparent(client: httpx.AsyncClient) -> None:
    lon, lat = sample.lonlat_of(16, 16)
    tile = morecantile.tms.get("WebMercatorQuad").tile(lon, lat, 12)
    answer = await client.get(f"/tiles/open/WebMercatorQuad/{tile.z}/{tile.x}/{tile.y}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    alpha = decoded(answer.content)[-1]
    assert set(np.unique(alpha)) == {0, 255}


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_point_gives_the_exact_value_of_its_version(seed: int, client: httpx.AsyncClient) -> None:
    answer = await client.get(f"/tiles/archive/point/{LON},{LAT}", params={"version": seed})
    assert answer.json()["values"] == [sample.value_at(seed, *PIXEL)]


async def test_every_kind_of_tile_address_answers(client: httpx.AsyncClient, served: Served) -> None:
    bodies = []
    for path in (
        "info",
        "info.geojson",
        "statistics",
        "preview.png",
        "preview/64x64.png",
        "WebMercatorQuad/tilejson.json",
    ):
        answer = await client.get(f"/tiles/open/{path}")
        assert answer.status_code == 200, path
        bodies.append(answer.content)
    assert not [body for body in bodies if str(served.root).encode() in body]


async def test_tilejson_names_tiles_that_exist(client: httpx.AsyncClient) -> None:
    document = (await client.get("/tiles/archive/WebMercatorQuad/tilejson.json?version=1")).json()
    (template,) = document["tiles"]
    assert template.startswith("http://serving/tiles/archive/WebMercatorQuad/{z}/{x}/{y}?version=1")
    answer = await client.get(template.format(z=TILE.z, x=TILE.x, y=TILE.y))
    assert answer.status_code == 200


NOTHING = [
    ("nonsense", {}),
    ("nonsense", OWNER),
    ("inner", {}),
    ("inner", STRANGER),
    ("inner", WORKER),
    ("draft", {}),
    ("draft", OWNER),
    ("../../etc/passwd", {}),
    ("%00", {}),
]


@pytest.mark.parametrize(("asset", "headers"), NOTHING)
@pytest.mark.parametrize("path", [TILE_PATH, "info", "statistics", "preview", f"point/{LON},{LAT}"])
async def test_hidden_raster_looks_like_a_missing_one(
    asset: str, headers: dict[str, str], path: str, client: httpx.AsyncClient
) -> None:
    nothing = await client.get(f"/tiles/no-such-asset/{path}")
    answer = await client.get(f"/tiles/{asset}/{path}", headers=headers)
    assert answer.status_code == nothing.status_code == 404
    assert answer.content == nothing.content
    # Dots lead out of the addresses of data, which alone are open to other origins.
    kept = {name for name in nothing.headers if is_data(answer.url.path) or not name.startswith("access-control")}
    assert dict(answer.headers) == {name: value for name, value in nothing.headers.items() if name in kept}
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "not-found"


@pytest.mark.parametrize(("asset", "headers"), [("inner", OWNER), ("inner", REVIEWER), ("draft", REVIEWER)])
async def test_owners_and_staff_read_what_others_may_not(
    asset: str, headers: dict[str, str], client: httpx.AsyncClient
) -> None:
    answer = await client.get(f"/tiles/{asset}/{TILE_PATH}", headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("asset", "version", "headers", "status"),
    [
        ("open", "2", {}, 200),
        ("open", "1", {}, 404),
        ("open", "1", STRANGER, 404),
        ("open", "1", OWNER, 200),
        ("open", "1", REVIEWER, 200),
        ("open", "3", REVIEWER, 404),
        ("archive", "1", {}, 200),
        ("mixed", "1", {}, 404),
        ("mixed", "1", OWNER, 200),
        ("mixed", "latest", {}, 200),
        ("open", "first", {}, 422),
    ],
)
async def test_requested_version_is_answered_only_to_who_may_see_it(
    asset: str, version: str, headers: dict[str, str], status: int, client: httpx.AsyncClient
) -> None:
    answer = await client.get(f"/tiles/{asset}/info", params={"version": version}, headers=headers)
    assert answer.status_code == status


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer guess"}, {"X-API-Key": "revoked-client"}])
async def test_a_credential_that_is_not_known_is_refused(headers: dict[str, str], client: httpx.AsyncClient) -> None:
    answers = [await client.get(f"/tiles/{asset}/info", headers=headers) for asset in ("open", "inner", "nonsense")]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1


@pytest.mark.parametrize(
    "path",
    [
        f"{TILE_PATH}?tilesize=100000",
        f"{TILE_PATH}?buffer=5000",
        f"{TILE_PATH}?padding=nan",
        f"{TILE_PATH}?tilesize=2048&buffer=0.5",
        f"{TILE_PATH}?tilesize=1024&padding=512&buffer=1",
        f"{TILE_PATH}?buffer=1000",
        f"{TILE_PATH}?tilesize=2048&tilesize=256&padding=1",
        f"{TILE_PATH}?{'bidx=1&' * 4600}tilesize=2048",
        f"{TILE_PATH}?{'&'.join(['bidx=1'] * 9)}",
        f"statistics?{'&'.join(['bidx=1'] * 9)}",
        f"point/{LON},{LAT}?{'&'.join(['bidx=1'] * 9)}",
        "preview?max_size=100000",
        "preview?width=9&height=99999",
        "preview/99999x9.png",
        "statistics?histogram_bins=999999999",
        "preview?dst_crs=http://attacker.invalid/x.prj",
        f"point/{LON},{LAT}?coord_crs=http://attacker.invalid/x.prj",
        "info.geojson?crs=/etc/passwd",
        f"{TILE_PATH}?rescale=a,b",
    ],
)
async def test_hostile_parameters_are_refused(path: str, client: httpx.AsyncClient) -> None:
    answer = await client.get(f"/tiles/open/{path}")
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid-parameters"


@pytest.mark.parametrize(
    ("query", "side"),
    [("tilesize=2046&buffer=1", 2048), ("tilesize=256&padding=16", 256), ("&".join(["bidx=1"] * 8), 512)],
)
async def test_parameters_within_the_limits_are_accepted(query: str, side: int, client: httpx.AsyncClient) -> None:
    answer = await client.get(f"/tiles/open/{TILE_PATH}.npy?{query}")
    assert answer.status_code == 200, answer.text
    assert np.load(io.BytesIO(answer.content)).shape[-1] <= side


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/tiles/open/WebMercatorQuad/map.html"),
        ("GET", "/tiles/open/tiles"),
        ("GET", "/tiles/open/bbox/1,2,3,4.png"),
        ("GET", "/docs"),
        ("GET", "/nothing/of/the/kind"),
    ],
)
async def test_only_the_named_endpoints_exist(method: str, path: str, client: httpx.AsyncClient) -> None:
    answer = await client.request(method, path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


@pytest.mark.parametrize("page", ["api.html", "docs", "redoc", "docs/oauth2-redirect"])
@pytest.mark.parametrize("below", ["", "/stac", "/vector"])
async def test_no_page_is_offered_that_loads_script(below: str, page: str, client: httpx.AsyncClient) -> None:
    """It would run where the console is signed in."""
    answer = await client.get(f"{below}/{page}", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize("path", ["/stac/api", "/vector/api"])
async def test_the_description_is_offered_as_json(path: str, client: httpx.AsyncClient) -> None:
    described = await client.get(path, headers={"Accept": "text/html"})
    assert (described.status_code, bool(described.json()["paths"])) == (200, True)


async def test_no_reader_names_a_file_or_an_expression(client: httpx.AsyncClient) -> None:
    plain = await client.get("/tiles/open/info")
    named = await client.get("/tiles/open/info", params={"url": "/etc/passwd", "expression": "b1/0"})
    assert named.content == plain.content
    assert (await client.post("/tiles/open/statistics", json={})).status_code == 405


async def test_a_tile_beside_the_product_is_not_found(client: httpx.AsyncClient) -> None:
    answer = await client.get("/tiles/open/WebMercatorQuad/15/0/0")
    assert (answer.status_code, answer.json()["code"]) == (404, "outside-bounds")


def _source_of(path: Path) -> Source:
    one = (1.0,)
    header = Header("", None, ("uint8",), ("gray",), (None,), (None,), one, one, {}, 256, Grid(0, 0, 1, -1, 1, 1))
    return Source("disguised", str(path), Handles(1, 60), {}, single(str(path), header))


def test_the_reader_opens_nothing_but_geotiffs(tmp_path: Path) -> None:
    disguised = tmp_path / "product.tif"
    band = '<VRTRasterBand dataType="Byte" band="1"/><GeoTransform>0,1,0,0,0,-1</GeoTransform>'
    disguised.write_text(f'<VRTDataset rasterXSize="1" rasterYSize="1">{band}</VRTDataset>')
    with rasterio.open(disguised, driver="VRT") as control:
        assert control.driver == "VRT"
    with pytest.raises(RasterioIOError):
        ProductReader(_source_of(disguised))  # type: ignore[arg-type]
