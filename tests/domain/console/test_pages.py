"""Every page, judged by axe, and filled with texts that would run script where a page took them for its own."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Page, Route

from domain.console.rendering import HEADERS
from tests.support.acts import decide, keep_words, submit
from tests.support.browsing import Visit, keep, visiting
from tests.support.console import Assembly
from tests.support.payloads import PAYLOADS, unguarded

AXE = (Path(__file__).parents[2] / "support/tools/node_modules/axe-core/axe.min.js").read_text()
JUDGE = "() => axe.run(document, {resultTypes: ['violations']}).then((found) => JSON.stringify(found.violations))"
FOREIGN = "http://evil.test/"
TABS = 4


@pytest.fixture(scope="module", autouse=True)
def _more_to_show(assembly: Assembly) -> None:
    """One approval is not enough, so that pages have some to show of what waits."""
    assembly.require(2, days=30)


async def judged(page: Page) -> list[str]:
    """What axe holds to be serious or critical."""
    await page.evaluate(AXE)
    found = json.loads(await page.evaluate(JUDGE))
    return [
        f"{each['id']}: {node['html'][:160]}"
        for each in found
        if each["impact"] in {"serious", "critical"}
        for node in each["nodes"]
    ]


async def test_axe_reports_the_faults_of_a_bad_page(browser: Browser, assembly: Assembly) -> None:
    async with visiting(browser, assembly, None) as visit:
        await visit.page.set_content("<html><body><img src=''><input><p style='color:#ccc'>pale</p></body></html>")
        assert len({fault.partition(":")[0] for fault in await judged(visit.page)}) >= 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious_on_any_page(
    browser: Browser, assembly: Assembly, artifacts: Path, scheme: Any
) -> None:
    asset_id = await assembly.processed(f"axe-{scheme}", f"up/axe-{scheme}.tif", 11, dataset_id=f"axe-{scheme}")
    given = await decide(assembly.domain, asset_id, 0, "approve", comment="As agreed.")
    assert given.json()["approvals"] == 1, given.text
    callback_id = _callback(assembly)
    _retries(assembly)
    paths = {
        "review": "/",
        "all": "/?show=all",
        "none": "/?q=nothing-like-this",
        "assets": "/assets",
        "asset": f"/assets/{asset_id}",
        "platforms": "/platforms",
        "callbacks": "/callbacks",
        "callback": f"/callbacks/{callback_id}",
        "work": "/work",
        "audit": "/audit",
        "verified": "/audit?verify=true",
        "nowhere": "/nowhere",
        "decidable": f"/versions/{asset_id}/0",
    }
    async with visiting(browser, assembly, None, color_scheme=scheme) as visit:
        await visit.go("/console/sign-in")
        assert await judged(visit.page) == []
        await keep(visit, artifacts, f"sign-in-{scheme}")
        await visit.sign_in("admin")
        for name, path in paths.items():
            await visit.go(f"/console{path}")
            assert await judged(visit.page) == [], name
            await keep(visit, artifacts, f"{name}-{scheme}")
        for button in ("Approve…", "Reject…", "Clearance…", "Exposure…", "Words…"):
            await visit.page.get_by_role("button", name=button).click()
            assert await judged(visit.page) == [], button
            await visit.page.keyboard.press("Escape")


def _retries(assembly: Assembly) -> None:
    """Some that were tried again, some of them often; and what a run has cost."""
    assembly.domain.rows(
        "insert into app.node_transitions (run_id, attempt, node_id, before, state, retries, at) select run_id, 1,"
        " 'node_' || mod(n, 3), 'ready', 'running', power(3, n), now() - n * interval '2 hours' from"
        " (select run_id from app.runs limit 1) run, generate_series(0, 8) n returning 1"
    )
    assembly.domain.rows(
        "insert into app.run_metrics (run_id, memory, name, value) select run_id, 1, 'features', 12.5 from app.runs"
        " on conflict (run_id, memory, name) do update set value = 12.5 returning 1"
    )


def _callback(assembly: Assembly) -> str:
    [(callback_id,)] = assembly.domain.rows(
        """with made as (insert into app.callback_endpoints (client_id, url)
               values ('ddh-dev', 'https://' || gen_random_uuid() || '.test/') returning endpoint_id)
           insert into app.callbacks (callback_id, request_id, endpoint_id, status, state, finished_at)
           select gen_random_uuid(), (select request_id from app.requests limit 1), endpoint_id, 'completed', 'failed',
               now() from made returning callback_id"""
    )
    return str(callback_id)


# --- texts that would run ---


@asynccontextmanager
async def watched(browser: Browser, assembly: Assembly, client_id: str | None) -> AsyncIterator[tuple[Visit, set[int]]]:
    """A visit, and the numbers of the texts that ran."""
    fired: set[int] = set()

    def note(number: int) -> None:
        fired.add(number)

    async with visiting(browser, assembly, client_id) as visit:
        await visit.page.context.expose_function("fired", note)
        yield visit, fired


async def test_every_hostile_text_runs_its_script_on_an_unguarded_page(browser: Browser, assembly: Assembly) -> None:
    assert len(PAYLOADS) >= 60
    async with watched(browser, assembly, None) as (visit, fired):
        silent = await _shown_raw(visit.page.context, {}, fired)
        assert silent == []


async def test_no_hostile_text_runs_under_the_consoles_policy_alone(browser: Browser, assembly: Assembly) -> None:
    async with watched(browser, assembly, None) as (visit, fired):
        silent = await _shown_raw(visit.page.context, HEADERS, fired, patience_seconds=0.1)
        assert (fired, len(silent)) == (set(), len(PAYLOADS))


async def _shown_raw(
    context: BrowserContext, headers: dict[str, str], fired: set[int], patience_seconds: float = 2.0
) -> list[str]:
    """Show each text on a page that takes it for its own; gives those that did not run."""

    async def answer(route: Route) -> None:
        named = route.request.url.removeprefix(FOREIGN)
        body = unguarded(PAYLOADS[int(named)]) if named.isdecimal() else ""
        await route.fulfill(status=200 if body else 404, body=body, content_type="text/html", headers=headers)

    async def show(page: Page, numbers: Iterable[int]) -> list[str]:
        silent = []
        for number in numbers:
            await page.goto(f"{FOREIGN}{number}", wait_until="domcontentloaded")
            for _ in range(round(patience_seconds / 0.02)):
                if number in fired:
                    break
                await asyncio.sleep(0.02)
            else:
                silent.append(PAYLOADS[number])
        return silent

    await context.route(f"{FOREIGN}**", answer)
    tabs = [await context.new_page() for _ in range(TABS)]
    shown = [show(tab, range(first, len(PAYLOADS), TABS)) for first, tab in enumerate(tabs)]
    return [payload for silent in await asyncio.gather(*shown) for payload in silent]


async def test_no_hostile_text_runs_on_any_page_of_the_console(browser: Browser, assembly: Assembly) -> None:
    shown = [await _filled(assembly, number, payload) for number, payload in enumerate(PAYLOADS)]
    museum = shown[0]
    calls = [_called(assembly, asset_id, payload) for asset_id, payload in zip(shown, PAYLOADS, strict=True)]
    async with watched(browser, assembly, "admin") as (visit, fired):
        seen = dict[str, str]()
        addresses = [
            "?show=all",
            "?show=rejected",
            "/assets",
            "/audit",
            "/callbacks",
            "/platforms",
            f"/assets/{museum}",
        ]
        addresses += [f"/versions/{asset_id}/0" for asset_id in shown[::8]]
        addresses += [f"/callbacks/{callback_id}" for callback_id in calls[::8]]
        for address in addresses:
            await visit.go(f"/console{address}")
            seen[address] = ""
            if older := await visit.page.get_by_role("link", name="Older").all():
                seen[address] += await visit.page.inner_text("main")
                await older[0].click()
            await visit.page.wait_for_timeout(150)
            seen[address] += await visit.page.inner_text("body")
            assert visit.complaints == [], address
        assert fired == set()
        # They were shown, as what they are: all of them as addresses, as files and bands, and as columns.
        for address in ("/callbacks", f"/versions/{museum}/0", f"/versions/{shown[COLUMNS]}/0"):
            plain = "".join(seen[address].split())
            assert [payload for payload in PAYLOADS if "".join(payload.split()) not in plain] == [], address


COLUMNS = 8  # which of the versions is made of columns and not of bands


def _called(assembly: Assembly, asset_id: str, payload: str) -> str:
    """A callback about the version to this address, which said this: stored, as no door of ours would let it be."""
    values = (payload, asset_id, payload, payload)
    [(callback_id,)] = assembly.domain.rows(
        """with place as (
               insert into app.callback_endpoints (client_id, url) values ('ddh-dev', %s) returning endpoint_id),
           made as (insert into app.callbacks (callback_id, request_id, endpoint_id, status, state, finished_at)
               select gen_random_uuid(), request_id, endpoint_id, 'failed', 'failed', now()
               from place, app.requests where asset_id = %s returning callback_id)
           insert into app.callback_deliveries (callback_id, error, excerpt, duration_ms)
           select callback_id, %s, %s, 1 from made returning callback_id""",
        *values,
    )
    return str(callback_id)


async def _filled(assembly: Assembly, number: int, payload: str) -> str:
    """A rejected version: label, references, words, attributes, report, files, messages and reasons are this text, or
    all of them.
    """
    texts = list(PAYLOADS) if number in {0, COLUMNS} else [payload]
    asset_id = await assembly.submit(payload, f"up/{number}.tif", dataset_id=payload, resource_id=str(number))
    words = {"title": payload, "description": payload, "keywords": [payload[:100]], "attribution": payload}
    kept = await keep_words(assembly.domain, asset_id, words)
    assert kept.status_code == 200, kept.text
    flow, _ = await assembly.started()
    await flow.beat({"node_id": "validate", "state": "running", "message": payload})
    band = {"dtype": "uint8", "nodata": 0, "minimum": 0, "maximum": 1, "mean": 0.5, "valid_percent": 100}
    report = [{"code": text, "severity": "fix", "wrong": text, "remedy": text} for text in texts]
    outputs = {
        "bands": [] if number == COLUMNS else [band | {"description": text} for text in texts],
        "validation": {
            "outcome": "warn_and_fix",
            "report": report,
            "driver": payload,
            "fields": {text: text for text in texts},
        },
        "bounds": [14, 47, 15, 48],
    }
    about = {"role": "report", "zone": "silver", "sha256": "0" * 64, "size_bytes": 1}
    files = [flow.own(about, name=str(place), media_type=text[:200]) for place, text in enumerate(texts)]
    committed = await flow.commit(outputs, artifacts=files)
    assert (committed.status_code, committed.json()["state"]) == (200, "completed"), committed.text
    # No name of this kind is taken: were one to come in some other way, pages would have to stand it.
    named = "update app.artifacts set name = %s, external_blob_path = %s where asset_id = %s and name = %s returning 1"
    for file, text in zip(files, texts, strict=True):
        assert assembly.domain.rows(named, text, text, asset_id, file["name"])
    given = await decide(assembly.domain, asset_id, 0, "approve", comment=payload)
    assert given.json()["approvals"] == 1, given.text
    rejected = await decide(assembly.domain, asset_id, 0, "reject", by="admin", reason=f"because {payload}")
    assert rejected.status_code == 200, rejected.text
    return asset_id


async def test_submission_of_a_file_named_like_a_hostile_text_is_refused(assembly: Assembly) -> None:
    for payload in PAYLOADS:
        answer = await submit(assembly.domain, source=f"up/{payload}.tif")
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid-submission"), payload


async def test_form_posted_from_another_site_changes_nothing(browser: Browser, assembly: Assembly) -> None:
    asset_id = await assembly.waiting("forged")
    address = f"{assembly.url}/console/versions/{asset_id}/0/approve"
    async with visiting(browser, assembly, "reviewer") as visit:
        token = await visit.page.locator("input[name=form_token]").first.get_attribute("value")
        fields = {"form_token": token, "revision": "1", "clearance_level": "public"}
        inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
        forged = f'<form method="post" action="{address}">{inputs}<button>Win</button></form>'
        await visit.page.route(FOREIGN, lambda route: route.fulfill(body=forged, content_type="text/html"))
        await visit.page.goto(FOREIGN)
        async with visit.page.expect_response(address) as answered:
            await visit.page.get_by_role("button", name="Win").click()
        assert (await answered.value).status == 403
        assert assembly.domain.rows("select approval from app.revisions where asset_id = %s", asset_id) == [
            ("pending_review",)
        ]
