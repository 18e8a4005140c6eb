"""Sessions of the console: whose they are, what they open, and when they end."""

import httpx
import pytest

from domain.contracts.console import SESSION_COOKIE
from tests.domain.console.test_doors import STAFF
from tests.support.console import Assembly
from tests.support.signing_in import SAME_ORIGIN, at_the_console, form_token, sign_in


async def test_session_is_not_shared_by_browsers_behind_one_connection(assembly: Assembly) -> None:
    """Behind the gateway all browsers come by the same few connections."""
    for name in STAFF:
        async with at_the_console(assembly, name) as http, at_the_console(assembly, None) as stranger:
            assert f">{name}</b>" in (await http.get("/console/")).text
            assert (await stranger.get("/console/")).status_code == 303
            assert (await stranger.get("/console/live/queue")).status_code == 401


async def test_signing_out_ends_every_copy_of_the_session(assembly: Assembly) -> None:
    async with at_the_console(assembly, "reviewer") as http:
        copy = http.cookies[SESSION_COOKIE]
        answer = await http.post("/console/sign-out", data={"form_token": await form_token(http)})
        assert answer.headers["location"] == "/console/sign-in"
    async with httpx.AsyncClient(base_url=assembly.url, cookies={SESSION_COOKIE: copy}) as http:
        assert (await http.get("/console/")).status_code == 303


@pytest.mark.parametrize(
    "end",
    [
        "update app.console_sessions set expires_at = now() - interval '1 s' where client_id = 'admin' returning 1",
        "update app.clients set is_active = false where client_id = 'admin' returning 1",
        "update app.clients set role = 'partner' where client_id = 'admin' returning 1",
    ],
)
async def test_session_ends_when_it_expires_or_its_client_changes(assembly: Assembly, end: str) -> None:
    async with at_the_console(assembly, "admin") as http:
        assert (await http.get("/console/")).status_code == 200
        assert assembly.domain.rows(end)
        try:
            assert (await http.get("/console/")).status_code == 303
        finally:
            assembly.domain.rows(
                "update app.clients set is_active = true, role = 'admin' where client_id = 'admin' returning 1"
            )


async def test_a_session_lives_no_longer_than_the_key_that_opened_it(assembly: Assembly) -> None:
    made = {"client_id": "hanna", "role": "reviewer", "display_name": "hanna", "key_days": 1}
    left = "select expires_at <= key_until from app.console_sessions join app.clients using (client_id)"
    async with assembly.domain.as_("admin") as admin:
        key = (await admin.post("/api/v1/clients", json=made)).json()["api_key"]
        assembly.domain.rows(
            "update app.clients set key_until = now() + interval '9 minutes' where client_id = 'hanna' returning 1"
        )
        for ending in ("rotate", "revoke"):
            async with httpx.AsyncClient(base_url=assembly.url, headers=SAME_ORIGIN) as http:
                assert (await sign_in(http, "hanna", key)).status_code == 303
                assert assembly.domain.rows(f"{left} where client_id = 'hanna'") == [(True,)]
                assert (await http.get("/console/")).status_code == 200
                answer = await admin.post(f"/api/v1/clients/hanna/{ending}")
                key = answer.json().get("api_key")
                assert (await http.get("/console/")).status_code == 303


async def test_session_reads_staged_tiles_on_console_pages_only_and_is_no_api_key(assembly: Assembly) -> None:
    asset_id = await assembly.processed("seen", "up/seen.tif", 9, dataset_id="seen")
    address = f"/tiles/{asset_id}/info?version=0"
    async with at_the_console(assembly, "reviewer") as http:
        assert (await http.get(address)).status_code == 200
        for site in ("cross-site", "same-site", "none"):
            assert (await http.get(address, headers={"sec-fetch-site": site})).status_code == 404
        session = http.cookies[SESSION_COOKIE]
    for header in ({"X-API-Key": session}, {"Authorization": f"Bearer {session}"}):
        async with httpx.AsyncClient(base_url=assembly.url, headers=header) as http:
            assert (await http.get("/api/platform/status/0")).status_code in {401, 422}
        inside = assembly.domain.transport
        async with httpx.AsyncClient(transport=inside, base_url="http://domain", headers=header) as http:
            assert (await http.get("/api/v1/assets")).status_code == 401
