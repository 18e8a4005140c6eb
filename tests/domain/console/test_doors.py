"""Who gets into the console, and that nothing changes but by a form of its own pages."""

import asyncio
import re

import httpx
import pytest

from domain.app import create_app
from domain.console import rendering
from domain.console.people import CONSOLE
from domain.contracts.console import SESSION_COOKIE
from flows.handlers.errors import Transient
from flows.storage import LocalStore
from tests.support.console import Assembly
from tests.support.platform import domain_settings
from tests.support.signing_in import SAME_ORIGIN, at_the_console, form_token, sign_in

STAFF = ("reviewer", "operator", "admin")


async def decidable(assembly: Assembly, name: str) -> str:
    """The page of a version that awaits its decision."""
    return f"/console/versions/{await assembly.waiting(name)}/0"


def approval(assembly: Assembly, page: str) -> str:
    query = "select approval from app.revisions where asset_id = %s order by revision desc"
    return str(assembly.domain.rows(query, page.split("/")[3])[0][0])


PAGES = ("/", "/assets", "/platforms", "/callbacks", "/audit", "/assets/0", "/versions/0/0", "/live/queue")


@pytest.mark.parametrize("path", PAGES)
async def test_no_page_is_shown_without_a_sign_in(assembly: Assembly, path: str) -> None:
    for cookies in ({}, {SESSION_COOKIE: "guessed"}):
        async with httpx.AsyncClient(base_url=assembly.url, cookies=cookies) as http:
            answer = await http.get(f"/console{path}")
        assert answer.status_code == (401 if "live" in path else 303)
        assert answer.headers.get("location", "/console/sign-in").startswith("/console/sign-in")


async def test_every_route_but_those_of_signing_in_needs_a_session(assembly: Assembly) -> None:
    app = create_app(domain_settings(assembly.domain.database, assembly.storage))
    console = app.state.console
    doors = {"/sign-in", "/sign-in/provider", "/signed-in", "/static"}
    asked = 0
    async with httpx.AsyncClient(base_url=assembly.url, headers=SAME_ORIGIN) as http:
        for path, method in _routes(console):
            if path in doors:
                continue
            filled = re.sub(r"\{[^}]+\}", "0", path.replace("{page}", "queue"))
            answer = await http.request(method, f"{CONSOLE}{filled}", data={} if method == "POST" else None)
            assert answer.status_code in {303, 401, 404}, (method, path, answer.status_code)
            assert answer.status_code != 404 or "callback" in path, (method, path)
            asked += 1
    assert asked >= 15


def _routes(app: object) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for route in app.routes:  # type: ignore[attr-defined]
        contexts = getattr(route, "effective_route_contexts", None)
        for each in contexts() if contexts else [route]:
            methods = getattr(each, "methods", None) or {"GET"}
            found += [(each.path, method) for method in methods if method != "HEAD"]
    return found


@pytest.mark.parametrize("way", ["..", "%2e%2e", "x/../..", "x%2f..%2f..", "./..", "."])
@pytest.mark.parametrize("door", ["console", "tiles", "stac"])
async def test_crafted_console_path_reaches_no_other_address_of_the_domain(
    assembly: Assembly, door: str, way: str
) -> None:
    """Behind it the services answer probes, and the domain its API."""
    async with httpx.AsyncClient(base_url=assembly.url) as http:
        # The target is sent as it is written: clients tidy addresses, those who look for a way out do not.
        asked = http.build_request("GET", "/", extensions={"target": f"/{door}/{way}/livez".encode()})
        answer = await http.send(asked)
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


async def test_malformed_path_is_answered_404(assembly: Assembly) -> None:
    async with at_the_console(assembly, "reviewer") as http:
        for path in ("/console/x%3Fy", "/console/caf%C3%A9", "/console/%00", "/console//"):
            answer = await http.get(path)
            assert (answer.status_code, "no such page" in answer.text) == (404, True), path


async def test_undecodable_query_is_not_answered_500(assembly: Assembly) -> None:
    address = httpx.URL(assembly.url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"GET /console/sign-in?next=\xe9&more=%ff HTTP/1.1\r\nHost: cairn\r\nConnection: close\r\n\r\n")
    status = (await reader.readline()).split()[1]
    writer.close()
    assert status in {b"200", b"400"}


async def test_staff_sign_in_with_name_and_key(assembly: Assembly) -> None:
    for name in STAFF:
        async with at_the_console(assembly, name) as http:
            page = await http.get("/console/")
            assert page.status_code == 200
            assert page.headers["cache-control"] == "no-store"
            assert "unsafe" not in page.headers["content-security-policy"]
            assert (await http.get("/console/audit")).status_code == (403 if name == "reviewer" else 200)


@pytest.mark.parametrize(
    ("name", "key", "status"),
    [
        ("reviewer", "wrong", 401),
        ("operator", "secret-reviewer", 401),
        ("", "", 401),
        ("ddh-dev", "secret-ddh-dev", 403),
        ("worker", "secret-worker", 403),
        ("gateway", "secret-gateway", 403),
    ],
)
async def test_sign_in_with_wrong_or_foreign_credentials_is_refused(
    assembly: Assembly, name: str, key: str, status: int
) -> None:
    async with at_the_console(assembly, None) as http:
        answer = await sign_in(http, name, key)
    assert (answer.status_code, SESSION_COOKIE in answer.cookies) == (status, False)


async def test_session_cookie_is_httponly_and_redirect_stays_in_the_console(assembly: Assembly) -> None:
    async with at_the_console(assembly, None) as http:
        answer = await sign_in(http, "reviewer", "secret-reviewer")
        assert answer.headers["location"] == "/console/assets"
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        away = {"username": "reviewer", "password": "secret-reviewer", "next": "https://evil.test/console"}
        assert (await http.post("/console/sign-in", data=away)).headers["location"] == "/console/"


async def test_outside_development_cookies_need_tls_and_local_users_a_setting(assembly: Assembly) -> None:
    database, storage = assembly.domain.database, assembly.storage
    keys = {"username": "reviewer", "password": "secret-reviewer"}
    for allowed, status in ((False, 403), (True, 303)):
        app = create_app(domain_settings(database, storage, console_local_users=allowed))
        inside = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=inside, base_url="https://cairn.test", headers=SAME_ORIGIN) as http,
        ):
            answer = await http.post("/console/sign-in", data=keys)
        assert answer.status_code == status
        assert ("secure" in answer.headers.get("set-cookie", "").lower()) == allowed


async def test_decision_without_this_sessions_form_token_is_refused(assembly: Assembly) -> None:
    page = await decidable(assembly, "doors")
    good = {"revision": "1", "clearance_level": "ouo"}
    async with at_the_console(assembly, "reviewer") as http:
        token = await form_token(http)
        with_token = good | {"form_token": token}
        assert (await http.get(f"{page}/approve", params=with_token)).status_code == 405
        for form in (good, good | {"form_token": "guessed"}, good | {"form_token": ""}):
            assert (await http.post(f"{page}/approve", data=form)).status_code == 403
        foreign = [
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"origin": "https://evil.test"},
            {"sec-fetch-site": "cross-site", "origin": assembly.url},
        ]
        for headers in foreign:
            assert (await http.post(f"{page}/approve", data=with_token, headers=headers)).status_code == 403
        async with at_the_console(assembly, "admin") as other:
            assert (await other.post(f"{page}/approve", data=with_token)).status_code == 403
        assert approval(assembly, page) == "pending_review"
        assert (await http.post(f"{page}/approve", data=with_token)).status_code == 303
        assert approval(assembly, page) == "approved"


async def test_decision_by_an_operator_or_by_the_submitter_is_refused(assembly: Assembly) -> None:
    page = await decidable(assembly, "roles")
    form = {"revision": "1", "clearance_level": "ouo"}
    async with at_the_console(assembly, "operator") as http:
        assert "Approve…" not in (await http.get(page)).text
        refused = await http.post(f"{page}/approve", data=form | {"form_token": await form_token(http)})
        assert refused.status_code == 403
    assembly.domain.rows(
        "update app.requests set client_id = 'reviewer' where asset_id = %s returning 1", page.split("/")[3]
    )
    async with at_the_console(assembly, "reviewer") as http:
        refused = await http.post(f"{page}/approve", data=form | {"form_token": await form_token(http)})
    assert refused.status_code == 403
    assert "submitted a revision cannot decide" in refused.text
    assert approval(assembly, page) == "pending_review"


async def test_refused_form_shows_its_error_and_keeps_what_was_typed(assembly: Assembly) -> None:
    page = await decidable(assembly, "words")
    async with at_the_console(assembly, "reviewer") as http:
        form = {"revision": "1", "form_token": await form_token(http)}
        short = await http.post(f"{page}/reject", data=form | {"reason": "no"})
        assert short.status_code == 422
        assert "needs at least 3 characters" in short.text
        stale = await http.post(f"{page}/reject", data=form | {"reason": "too old", "version_lock": "99"})
        assert stale.status_code == 412
        assert "too old</textarea>" in stale.text
        long = await http.post(f"{page}/reject", data=form | {"reason": "x" * 20_000})
        assert long.status_code == 422
    assert approval(assembly, page) == "pending_review"


async def test_metadata_kept_by_a_reviewer_is_shown_with_the_approval(assembly: Assembly) -> None:
    page = await decidable(assembly, "named")
    said = {"title": "Elevation <b>of</b> Styria", "keywords": "dem, , height", "license": "CC-BY-4.0"}
    for name, status in (("operator", 403), ("reviewer", 303)):
        async with at_the_console(assembly, name) as http:
            [lock] = re.findall(r'name="asset_lock" value="(\d+)"', (await http.get(page)).text)[:1] or ["0"]
            form = said | {"form_token": await form_token(http), "asset_lock": lock}
            assert (await http.post(f"{page}/words", data=form)).status_code == status
            assert ("Elevation &lt;b&gt;of&lt;/b&gt; Styria" in (await http.get(page)).text) == (status == 303)
    async with at_the_console(assembly, "reviewer") as http:
        form = {"form_token": await form_token(http)}
        assert "title needs at least 1 characters" in (await http.post(f"{page}/words", data=form)).text
        approve = form | {"revision": "1", "clearance_level": "ouo"}
        assert (await http.post(f"{page}/approve", data=approve)).status_code == 303
        assert "Published by reviewer" in (await http.get(f"/console/assets/{page.split('/')[3]}")).text
    query = "select content ->> 'title', content -> 'keywords' from app.layer_catalog where asset_id = %s"
    assert assembly.domain.rows(query, page.split("/")[3]) == [("Elevation <b>of</b> Styria", ["dem", "height"])]


async def test_approval_with_an_end_in_the_past_is_refused(assembly: Assembly) -> None:
    page = await decidable(assembly, "ending")
    async with at_the_console(assembly, "reviewer") as http:
        form = {"revision": "1", "clearance_level": "ouo", "form_token": await form_token(http)}
        for day, status in (("2020-01-01", 422), ("soon", 422), ("2999-12-31", 303)):
            assert (await http.post(f"{page}/approve", data=form | {"ends_on": day})).status_code == status
        assert "2999-12-31" in (await http.get(page)).text


async def test_without_built_scripts_every_page_says_how_to_build_them(
    assembly: Assembly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "BUILT", ("not-there.js",))
    async with httpx.AsyncClient(base_url=assembly.url) as http:
        for path in ("/", "/sign-in", "/versions/0/0"):
            answer = await http.get(f"/console{path}")
            assert (answer.status_code, "make setup" in answer.text) == (503, True)
        assert (await http.get("/console/static/console.css")).status_code == 200


async def test_only_operators_replay_callbacks(assembly: Assembly) -> None:
    [(callback_id,)] = assembly.domain.rows(
        """with made as (insert into app.callback_endpoints (client_id, url) values ('ddh-dev', 'https://a.test/')
               returning endpoint_id)
           insert into app.callbacks (callback_id, request_id, endpoint_id, status, state, finished_at)
           select gen_random_uuid(), (select request_id from app.requests limit 1), endpoint_id, 'completed', 'failed',
               now() from made returning callback_id"""
    )
    for name, status in (("reviewer", 403), ("operator", 303)):
        async with at_the_console(assembly, name) as http:
            form = {"form_token": await form_token(http)}
            answer = await http.post(f"/console/callbacks/{callback_id}/replay", data=form)
        assert answer.status_code == status
    assert assembly.domain.rows("select state from app.callbacks where callback_id = %s", callback_id) == [("ready",)]


async def test_sign_in_and_sign_out_leave_audit_entries(assembly: Assembly) -> None:
    async with at_the_console(assembly, "operator") as http:
        await http.post("/console/sign-out", data={"form_token": await form_token(http)})
    query = "select action, details ->> 'way' from app.audit where actor = 'operator' order by audit_id desc limit 2"
    assert assembly.domain.rows(query) == [("console.sign-out", None), ("console.sign-in", "key")]


async def test_page_is_readable_during_a_storage_outage_and_says_why_no_decision_was_taken(
    assembly: Assembly, monkeypatch: pytest.MonkeyPatch
) -> None:
    asset_id = await assembly.processed("away", "up/away.tif", 21, dataset_id="away")
    page = f"/console/versions/{asset_id}/0"

    def fails(*_: object) -> bytes:
        raise Transient("It is busy: ServerBusy.")

    async with at_the_console(assembly, "reviewer") as http:
        form = {"revision": "1", "clearance_level": "ouo", "form_token": await form_token(http)}
        assert "Catalogue item" in (await http.get(page)).text
        with monkeypatch.context() as away:
            for reading in ("stamp", "chunks", "read_bytes"):
                away.setattr(LocalStore, reading, fails)
            shown = await http.get(page)
            assert (shown.status_code, "Catalogue item" in shown.text) == (200, False)
            assert (await http.get(f"{page}/footprint/1")).status_code == 200
            refused = await http.post(f"{page}/approve", data=form)
            assert (refused.status_code, "Our storage does not answer" in refused.text) == (503, True)
            assert approval(assembly, page) == "pending_review"
        assert (await http.post(f"{page}/approve", data=form)).status_code == 303
    assert approval(assembly, page) == "approved"
