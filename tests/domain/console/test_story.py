"""A reviewer's day, in a browser, on real servers and a real raster."""

import math
from collections.abc import Sequence
from pathlib import Path

import morecantile
import psycopg
from numpy import array_split
from playwright.async_api import Browser, Page, expect
from psycopg.types.json import Jsonb

from tests.support.browsing import PATIENCE_MS, eventually, keep, visiting
from tests.support.console import Assembly
from tests.support.pictures import greys, pixels

ZOOM = 11
EFFECTIVE_SECONDS = 5.0
WEB_MERCATOR = morecantile.tms.get("WebMercatorQuad")
AREA = (170, 193, 187)  # the colour of areas over that of land, in light
AREA_AT_SEA = (154, 185, 187)
TABLE = """
create table geo.{0} (fid bigint not null, lanes integer, geom geometry(Geometry, 4326));
insert into geo.{0} values {1};
grant select on geo.{0} to cairn_serving;
"""


async def test_reviewer_takes_a_pending_version_to_served_and_back(
    browser: Browser, assembly: Assembly, artifacts: Path
) -> None:
    story = {"dataset_id": "story", "resource_id": "dem"}
    async with visiting(browser, assembly, "reviewer") as visit:
        page = visit.page
        await expect(page.get_by_text("Nothing awaits review.")).to_be_visible()
        asset_id = await assembly.processed("spring", "up/story-1.tif", 3, **story)

        # The queue tells of it without a reload.
        await expect(page.get_by_role("link", name="spring")).to_be_visible(timeout=PATIENCE_MS)
        await keep(visit, artifacts, "queue")
        await page.get_by_role("link", name="spring").click()
        levels = greys(await visit.map_drawn())
        assert len(levels) > 20_000
        assert len(set(levels)) > 20
        await keep(visit, artifacts, "version")

        await visit.decide("Reject…", "Reject", say="It lies in the wrong place.")
        await visit.shown("rejected")
        await expect(page.get_by_text("It lies in the wrong place.").first).to_be_visible()
        assert (await tile(assembly, "ddh-dev", asset_id)).startswith("404")

        # A resubmission arrives while the page is open.
        await assembly.processed("spring", "up/story-2.tif", 4, **story)
        await visit.shown("revision 2")
        await visit.shown("awaits review")
        await visit.decide("Approve…", "Approve", choose="Official use only")
        await visit.shown("revision 2 is served as latest")
        assert (await tile(assembly, "ddh-dev", asset_id)).startswith("200 image/")
        assert (await tile(assembly, None, asset_id)).startswith("404")
        assert (await tile(assembly, "arcgis-dev", asset_id)).startswith("404")

        await visit.decide("Clearance…", "Change clearance", choose="Public", say="Its owner agreed.")
        await visit.shown("public")
        assert (await tile(assembly, None, asset_id)).startswith("200 image/")

        await visit.decide("Clearance…", "Change clearance", choose="Uncleared", say="Its owner did not agree.")
        await visit.shown("uncleared")

        async def is_gone() -> bool:
            return (await tile(assembly, None, asset_id)).startswith("404")

        assert await eventually(is_gone, EFFECTIVE_SECONDS) < EFFECTIVE_SECONDS


async def test_the_staged_version_is_seen_beside_the_latest(
    browser: Browser, assembly: Assembly, artifacts: Path
) -> None:
    pair = {"dataset_id": "pair", "resource_id": "dem"}
    asset_id = await assembly.processed("one", "up/pair-1.tif", 5, **pair)
    async with visiting(browser, assembly, "reviewer") as visit:
        page = visit.page
        await visit.go(f"/console/versions/{asset_id}/0")
        await visit.decide("Approve…", "Approve", choose="Official use only")
        await assembly.processed("two", "up/pair-2.tif", 60, **pair)
        await visit.go(f"/console/versions/{asset_id}/1")
        await visit.map_drawn("staged")
        await visit.map_drawn("latest")
        swipe = page.get_by_role("slider")
        frame = page.locator("#map")
        await keep(visit, artifacts, "swipe")

        await swipe.focus()
        await page.keyboard.press("Home")
        only_staged = pixels(await frame.screenshot())
        await page.keyboard.press("End")
        only_latest = pixels(await frame.screenshot())
        middle = only_staged.shape[0] // 2
        across = slice(only_staged.shape[1] // 3, only_staged.shape[1] * 2 // 3)
        assert (only_staged[middle, across] != only_latest[middle, across]).any(axis=1).mean() > 0.5


async def test_layer_that_waits_for_review_is_drawn_with_its_attributes(
    browser: Browser, assembly: Assembly, artifacts: Path
) -> None:
    asset_id = await _layer(assembly)
    async with visiting(browser, assembly, "reviewer") as visit:
        await visit.go(f"/console/versions/{asset_id}/0")
        shown = pixels(await visit.map_drawn())
        assert (abs(shown - AREA).max(axis=2) <= 8).sum() > 20_000
        attributes = visit.page.get_by_role("region", name="Attributes")
        await expect(attributes).to_contain_text("lanes")
        await expect(visit.page.locator("#map-features")).to_have_text("All features in view are shown.")
        await keep(visit, artifacts, "layer")
        assert (
            await assembly.ask("ddh-dev", "GET", f"/vector/collections/{asset_id}/items?version=0")
        ).status_code == 404


async def test_crowded_map_thins_features_evenly_and_says_how_many_it_shows(
    browser: Browser, assembly: Assembly, artifacts: Path
) -> None:
    """Twenty thousand parcels within one tile, in rows from south to north; nearer, there is room for all in view."""
    tile = WEB_MERCATOR.bounds(morecantile.Tile(276, 179, 9))
    across, up = (tile.right - tile.left) * 0.8 / 200, (tile.top - tile.bottom) * 0.5 / 100
    west, south = tile.left + across * 25, tile.bottom + up * 50
    boxes = [
        (west + x * across, south + y * up, west + (x + 0.9) * across, south + (y + 0.9) * up)
        for y in range(100)
        for x in range(200)
    ]
    asset_id = await _layer(assembly, "parcels", (west, south, west + 200 * across, south + 100 * up), boxes)
    async with visiting(browser, assembly, "reviewer") as visit:
        await visit.go(f"/console/versions/{asset_id}/0")
        is_area = abs(pixels(await visit.map_drawn()) - AREA).max(axis=2) <= 24
        said = visit.page.locator("#map-features")
        await expect(said).to_have_text(
            "10,000 of 20,000 features in view are shown, spread evenly. Zoom in to see the others.",
            timeout=PATIENCE_MS,
        )
        await keep(visit, artifacts, "parcels")
        is_area[:120, -80:] = False  # where the buttons lie over the map: their edges have about that colour
        rows, columns = is_area.any(axis=1).nonzero()[0], is_area.any(axis=0).nonzero()[0]
        drawn = is_area[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        shares = [part.mean() for band in array_split(drawn, 4) for part in array_split(band, 4, axis=1)]
        assert min(shares) > 0.6 * max(shares), shares
        for _ in range(2):
            await visit.page.get_by_role("button", name="Zoom in").click()
        await expect(said).to_have_text("All features in view are shown.", timeout=PATIENCE_MS)


async def test_a_layer_across_the_antimeridian_is_drawn_on_both_of_its_sides(
    browser: Browser, assembly: Assembly, artifacts: Path
) -> None:
    asset_id = await _layer(assembly, "fiji", (178, -19, -178, -16), [(178, -19, 180, -16), (-180, -19, -178, -16)])
    async with visiting(browser, assembly, "reviewer") as visit:
        await visit.go(f"/console/versions/{asset_id}/0")
        shown = pixels(await visit.map_drawn())
        await keep(visit, artifacts, "antimeridian")
        is_area = abs(shown - AREA_AT_SEA).max(axis=2) <= 8
        middle = is_area.shape[1] // 2
        assert is_area[:, :middle].sum() > 10_000
        assert is_area[:, middle:].sum() > 10_000
        await expect(visit.page.get_by_text("Parts of the map could not be loaded.")).to_be_hidden()


Box = tuple[float, float, float, float]
DEGREE = (14, 47, 15, 48)


async def _layer(
    assembly: Assembly, name: str = "roads", bounds: Box = DEGREE, boxes: Sequence[Box] = (DEGREE,)
) -> str:
    """A version with features of these boxes, in a table as the loader leaves one."""
    asset_id = await assembly.submit("1", f"up/{name}.gpkg", dataset_id=name, data_type="vector")
    flow, _ = await assembly.started()
    about = {"role": "geoparquet", "zone": "silver", "media_type": "application/vnd.apache.parquet"}
    product = flow.own(about, name="data.parquet")
    told = {"bounds": list(bounds), "validation": {"driver": "GPKG", "fields": {"lanes": "integer"}}}
    assert (await flow.commit(told, artifacts=[product])).status_code == 200
    layer = {"columns": [{"name": "lanes", "title": "lanes", "type": "integer"}], "crs": "EPSG:4326"}
    known = {"geometry_type": "Polygon", "feature_count": len(boxes), "bounds_wgs84": told["bounds"]}
    table = f"v_{name.encode().hex():0>24}"
    rows = ", ".join(f"({fid}, 2, st_makeenvelope{(*box, 4326)})" for fid, box in enumerate(boxes, 1))
    with psycopg.connect(assembly.domain.database.url()) as connection:
        connection.execute(TABLE.format(table, rows).encode())
        connection.execute(
            "insert into geo.layers (table_name, product, run_id, description, is_ready) values (%s, %s, %s, %s, true)",
            (table, product["name"], str(flow.run_id), Jsonb(layer | known)),
        )
    return asset_id


async def test_version_is_served_after_two_approvals_and_not_after_one_is_withdrawn(
    browser: Browser, assembly: Assembly, artifacts: Path
) -> None:
    assembly.require(2, days=30)
    try:
        await _approve_twice(browser, assembly, artifacts)
    finally:
        assembly.require(1)


async def _approve_twice(browser: Browser, assembly: Assembly, artifacts: Path) -> None:
    asset_id = await assembly.processed("both", "up/both.tif", 9, dataset_id="quorum", resource_id="dem")
    address = f"/console/versions/{asset_id}/0"
    async with visiting(browser, assembly, "reviewer") as visit:
        page, approvals = visit.page, visit.page.get_by_role("region", name="List of approvals")
        await visit.go(address)
        await visit.shown("0 of 2 approvals")
        await assembly.approve_as_partner(asset_id, "public")
        await visit.shown("1 of 2 approvals")
        await visit.go("/console/")
        await expect(page.get_by_role("row").filter(has_text="both")).to_contain_text("1 of 2 approvals")
        await visit.go(address)
        await visit.decide("Approve…", "Approve", choose="Official use only")
        await visit.shown("revision 1 is served as latest")
        await expect(approvals.get_by_role("row").filter(has_text="counts")).to_have_count(2)
        await expect(page.get_by_text("They suffice until")).to_be_visible()
        await keep(visit, artifacts, "approvals")
        assert (await tile(assembly, "ddh-dev", asset_id)).startswith("200 image/")

        await visit.decide("Withdraw my approval…", "Withdraw my approval", say="It was the wrong map.")
        await visit.shown("1 of 2 approvals")
        await expect(approvals).to_contain_text("It was the wrong map.")
        assert (await tile(assembly, "ddh-dev", asset_id)).startswith("404")


async def test_progress_of_a_run_appears_on_an_open_page(browser: Browser, assembly: Assembly, artifacts: Path) -> None:
    asset_id = await assembly.submit("live", "up/live.tif", dataset_id="watched", resource_id="dem")
    async with visiting(browser, assembly, "operator") as visit:
        page = visit.page
        await visit.go(f"/console/versions/{asset_id}/0")
        await visit.shown("pending")
        flow, _ = await assembly.started()
        told = page.get_by_role("listitem").filter(has_text="tiles:")
        await flow.beat({"node_id": "tiles", "state": "running", "items_total": 40, "items_done": 10})
        await expect(told).to_have_text("tiles: running, 10 of 40", timeout=PATIENCE_MS)
        await expect(page.get_by_role("progressbar")).to_have_attribute("value", "10")
        await flow.beat({"node_id": "tiles", "state": "running", "items_total": 40, "items_done": 33})
        await expect(told).to_have_text("tiles: running, 33 of 40", timeout=PATIENCE_MS)
        await keep(visit, artifacts, "run")
        await expect(page.get_by_role("link", name="Attempt 1 in Prefect")).to_have_attribute(
            "href", f"http://prefect.test/runs/flow-run/{flow.flow_run_id}"
        )
        await expect(page.get_by_role("button", name="Approve…")).to_have_count(0)
        await flow.fail(message="The file ends too early.")
        await visit.shown("failed")
        await expect(page.get_by_text("The file ends too early.").first).to_be_visible()


async def test_reason_being_typed_survives_a_change_and_the_stale_decision_is_refused(
    browser: Browser, assembly: Assembly
) -> None:
    asset_id = await assembly.waiting("race")
    async with visiting(browser, assembly, "reviewer") as visit:
        await visit.go(f"/console/versions/{asset_id}/0")
        await visit.page.get_by_role("button", name="Reject…").click()
        reason = visit.page.get_by_role("dialog").get_by_role("textbox")
        await reason.fill("Clouds everywhere")
        await assembly.waiting("race", "up/race-2.tif")
        await visit.page.wait_for_timeout(2500)
        await expect(reason).to_have_value("Clouds everywhere")
        await visit.page.get_by_role("dialog").get_by_role("button", name="Reject").click()
        await expect(visit.page.get_by_role("alert").first).to_contain_text("changed since")
        await expect(visit.page).to_have_url(f"{assembly.url}/console/versions/{asset_id}/0")
        await expect(reason).to_have_value("Clouds everywhere")
        await visit.page.get_by_role("dialog").get_by_role("button", name="Reject").click()
        await visit.shown("revision 2")
        await visit.shown("rejected")


async def test_page_without_its_live_stream_says_that_it_may_be_old(browser: Browser, assembly: Assembly) -> None:
    async with visiting(browser, assembly, "reviewer") as visit:
        told = visit.page.get_by_text("what is shown here may be old")
        await visit.page.route("**/console/live/**", lambda route: route.abort())
        await visit.go("/console/assets")
        await expect(told).to_be_visible(timeout=PATIENCE_MS)
        await visit.page.unroute("**/console/live/**")
        await expect(told).to_be_hidden(timeout=PATIENCE_MS)


async def test_version_is_decided_by_keyboard_alone_on_a_small_dark_screen(
    browser: Browser, assembly: Assembly, artifacts: Path
) -> None:
    keys = {"dataset_id": "keys", "resource_id": "dem"}
    asset_id = await assembly.processed("keys", "up/keys.tif", 8, **keys)
    small = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}
    async with visiting(browser, assembly, "reviewer", **small) as visit:
        page = visit.page
        await visit.go(f"/console/versions/{asset_id}/0")
        await visit.map_drawn()
        wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await page.evaluate(wide) <= 0
        await keep(visit, artifacts, "version-small-dark")
        await _tab_to(visit.page, "Approve…")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await keep(visit, artifacts, "approve-small-dark")
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await _tab_to(visit.page, "Approve…")
        await page.keyboard.press("Enter")
        await _tab_to(visit.page, "Approve")
        await page.keyboard.press("Enter")
        await visit.shown("is served")
        for path in ("/console/?show=all", "/console/assets", "/console/platforms", "/console/callbacks"):
            await visit.go(path)
            assert await page.evaluate(wide) <= 0, path


async def _tab_to(page: Page, name: str) -> None:
    """Press Tab until the button of this name has the focus."""
    for _ in range(60):
        if await page.evaluate("() => document.activeElement?.textContent?.trim()") == name:
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"{name} cannot be reached by Tab")


async def tile(assembly: Assembly, client_id: str | None, asset_id: str) -> str:
    """The answer for the tile in the middle of the asset's latest, in a word."""
    [(bounds,)] = assembly.domain.rows(
        "select outputs -> 'bounds' from app.revisions where asset_id = %s order by revision desc limit 1", asset_id
    )
    lon, lat = (bounds[0] + bounds[2]) / 2, math.radians((bounds[1] + bounds[3]) / 2)
    x = int((lon + 180) / 360 * 2**ZOOM)
    y = int((1 - math.asinh(math.tan(lat)) / math.pi) / 2 * 2**ZOOM)
    answer = await assembly.ask(client_id, "GET", f"/tiles/{asset_id}/WebMercatorQuad/{ZOOM}/{x}/{y}?version=latest")
    return f"{answer.status_code} {answer.headers['content-type']}"
