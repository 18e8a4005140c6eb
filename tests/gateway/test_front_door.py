"""Who guesses at what is only forwarded: serving judges the credential, and the guesser waits all the same."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from domain.contracts.console import SESSION_COOKIE
from domain.rules.rates import Buckets
from gateway.serving.app import create_app
from gateway.serving.settings import ServingSettings
from gateway.state import Gateway
from tests.support.cluster import TestDatabase
from tests.support.platform import Platform

JUDGED = "/tiles/some-asset/info"
UNJUDGED = "/vector/nope"  # no route behind the door: nobody looks at the credential
LIMIT = 50


@pytest.fixture
async def served(platform: Platform, database: TestDatabase, tmp_path: Path) -> AsyncIterator[Platform]:
    """The platform with serving behind the front door."""
    url = SecretStr(database.url("cairn_serving"))
    serving = create_app(ServingSettings(database_serving_url=url, storage_root=tmp_path))
    inside = httpx.ASGITransport(serving, raise_app_exceptions=False)
    app = platform.gateway.app  # type: ignore[attr-defined]
    before: Gateway = app.state.gateway
    async with (
        serving.router.lifespan_context(serving),
        httpx.AsyncClient(transport=inside, base_url="http://serving") as behind,
    ):
        app.state.gateway = replace(before, serving=behind)
        yield platform
        app.state.gateway = before


async def ask(platform: Platform, path: str, headers: dict[str, str]) -> int:
    async with httpx.AsyncClient(transport=platform.gateway, base_url="http://gateway", headers=headers) as client:
        return (await client.get(path)).status_code


def as_session(secret: str) -> dict[str, str]:
    """What a browser would send from our own page, and what anybody else can write as well."""
    return {"Cookie": f"{SESSION_COOKIE}={secret}", "Sec-Fetch-Site": "same-origin"}


def as_key(secret: str) -> dict[str, str]:
    return {"X-API-Key": secret}


@pytest.mark.parametrize("shown", [as_session, as_key])
async def test_wrong_credentials_are_counted_in_every_header_and_cookie(
    served: Platform, shown: Callable[[str], dict[str, str]]
) -> None:
    answers = [await ask(served, JUDGED, shown(f"wrong-{number}")) for number in range(LIMIT + 10)]
    assert answers == [401] * LIMIT + [429] * 10
    for right in (as_session, as_key):  # nor does the guesser learn that one is right
        assert await ask(served, JUDGED, right("secret-ddh-dev")) == 429


async def test_answer_that_needed_no_credential_proves_none(served: Platform) -> None:
    guesses = [f"guess-{number}" for number in range(5)] + ["secret-ddh-dev"]
    assert {await ask(served, UNJUDGED, as_key(guess)) for guess in guesses} == {404}
    for number in range(LIMIT):
        assert await ask(served, JUDGED, as_key(f"wrong-{number}")) == 401
    assert {await ask(served, JUDGED, as_key(guess)) for guess in guesses} == {429}


async def test_known_reader_goes_on_beside_a_guesser(served: Platform) -> None:
    assert await ask(served, "/api/assets", as_key("secret-ddh-dev")) == 200
    for number in range(LIMIT):
        assert await ask(served, JUDGED, as_session(f"wrong-{number}")) == 401
    assert await ask(served, JUDGED, as_key("secret-ddh-dev")) == 404


async def test_crawling_reader_does_not_use_up_others_rates(served: Platform) -> None:
    """By credential, and by address where none is shown; whoever has to wait is told how long."""
    app, now = served.gateway.app, [0.0]  # type: ignore[attr-defined]
    app.state.gateway = replace(app.state.gateway, readers=Buckets(1, 5, clock=lambda: now[0]))
    crawler, other = as_key("secret-ddh-dev"), as_key("secret-arcgis-dev")
    assert [await ask(served, JUDGED, crawler) for _ in range(7)] == [404] * 5 + [429] * 2
    for reader in (other, {}):
        assert [await ask(served, UNJUDGED, reader) for _ in range(6)] == [404] * 5 + [429]
    async with served.as_("ddh-dev") as client:
        refused = await client.get(JUDGED)
        assert (refused.json()["code"], refused.headers["retry-after"]) == ("too-many-calls", "1")
        assert (await client.get("/api/assets")).status_code == 200  # calls are counted apart
    now[0] = 2.0
    assert [await ask(served, JUDGED, crawler) for _ in range(3)] == [404] * 2 + [429]


PREFLIGHT = {"Origin": "https://elsewhere.test", "Access-Control-Request-Method": "GET"}


async def test_preflights_are_answered_before_rates_and_are_no_way_around_them(served: Platform) -> None:
    """The door answers by itself, and the same to everybody; what is asked then is counted as ever."""
    app = served.gateway.app  # type: ignore[attr-defined]
    app.state.gateway = replace(app.state.gateway, readers=Buckets(1, 5, clock=lambda: 0.0))
    async with served.as_(None) as page:
        for _ in range(20):
            answer = await page.options(JUDGED, headers=PREFLIGHT)
            assert (answer.status_code, answer.text) == (200, "OK")
        answers = [await page.get(JUDGED, headers={"Origin": PREFLIGHT["Origin"]}) for _ in range(6)]
        assert [each.status_code for each in answers] == [404] * 5 + [429]
        for each in answers:
            assert each.headers["access-control-allow-origin"] == "*"
        assert (await page.options(JUDGED, headers=PREFLIGHT)).status_code == 200
        assert (await page.options(JUDGED)).status_code == 204
