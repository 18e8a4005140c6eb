"""A map that shows nothing says why, beside the map and to whoever is about to approve it."""

import json
from typing import Any

from playwright.async_api import Browser, Route, expect

from tests.support.browsing import PATIENCE_MS, visiting
from tests.support.console import Assembly

EMPTY = {"dtype": "float32", "meaning": "gray", "minimum": 0.0, "maximum": 0.0, "valid_percent": 0.0, "nodata": -1.0}
WHY = "The map is blank: it is drawn from band 1, where every pixel is nodata or transparent."


async def committed(assembly: Assembly, name: str, outputs: dict[str, Any]) -> str:
    """A version of which the workflow told this."""
    asset_id = await assembly.submit("first", f"up/{name}.tif", dataset_id=name)
    flow, _ = await assembly.started()
    answer = await flow.commit({"bounds": [14.0, 47.0, 15.0, 48.0], **outputs})
    assert answer.status_code == 200, answer.text
    return asset_id


async def test_blank_map_is_announced_before_approval(browser: Browser, assembly: Assembly) -> None:
    blank = await committed(assembly, "blank", {"bands": [EMPTY]})
    fine = await committed(assembly, "not-blank", {"bands": [EMPTY | {"valid_percent": 3.0, "maximum": 9.0}]})
    async with visiting(browser, assembly, "reviewer") as visit:
        await visit.go(f"/console/versions/{blank}/0")
        await expect(visit.page.locator("#map-blank")).to_have_text(WHY)
        await visit.page.get_by_role("button", name="Approve…").click()
        await expect(visit.page.get_by_role("dialog")).to_contain_text(
            f"{WHY} Approve it only if it is meant to be so."
        )
        await visit.go(f"/console/versions/{fine}/0")
        await expect(visit.page.locator("#map-blank")).to_have_count(0)


async def test_refused_map_shows_the_reason_as_text(browser: Browser, assembly: Assembly) -> None:
    asset_id = await committed(assembly, "refused", {"bands": []})

    async def refuse(route: Route) -> None:
        problem = {"status": 422, "code": "cannot-render", "detail": "The <b>parts</b> do not share a grid."}
        await route.fulfill(status=422, content_type="application/problem+json", body=json.dumps(problem))

    async with visiting(browser, assembly, "reviewer") as visit:
        await visit.page.route("**/tiles/**", refuse)
        await visit.go(f"/console/versions/{asset_id}/0")
        said = "The map cannot be drawn. The <b>parts</b> do not share a grid."
        await expect(visit.page.locator("#map-trouble")).to_have_text(said, timeout=PATIENCE_MS)
        await visit.page.get_by_role("button", name="Approve…").click()
        await expect(visit.page.get_by_role("dialog").locator("[data-map-trouble]")).to_have_text(said)
