"""What operators see of the gateway and of all platforms' work; nobody else, and no secret."""

from typing import Any

import httpx
import pytest
from pydantic import BaseModel, HttpUrl, SecretStr
from pydantic_settings import BaseSettings

from gateway.reads.administration import shown, without_credentials
from tests.support.acts import dispatched, submit
from tests.support.platform import Domain, Platform

PAGES = ("health", "config", "active-jobs", "recent-events", "workflows")


async def read(platform: Platform, page: str, by: str | None = "operator") -> httpx.Response:
    async with platform.as_(by) as caller:
        return await caller.get(f"/api/admin/{page}")


async def test_admin_routes_are_for_operators_only(platform: Platform) -> None:
    callers = {None: 401, "nobody": 401, "ddh-dev": 403, "reviewer": 403, "worker": 403, "gateway": 403}
    for page in PAGES:
        for by, status in (callers | {"operator": 200, "admin": 200}).items():
            assert (await read(platform, page, by)).status_code == status, (page, by)


async def test_health_names_each_service_and_whether_it_answers(platform: Platform) -> None:
    assert (await read(platform, "health")).json() == {
        "gateway": "ok",
        "database": "ok",
        "domain": "ok",
        "serving": "unavailable",
    }


async def test_the_settings_are_shown_without_a_secret(platform: Platform) -> None:
    answer = await read(platform, "config")
    settings = answer.json()["settings"]
    assert settings["max_body_bytes"] == 1_000_000
    assert settings["service_token"] == settings["database_gateway_url"] == "(set)"
    assert "secret-" not in answer.text
    assert "postgresql" not in answer.text


async def jobs(domain: Domain) -> None:
    for number in range(3):
        assert (await submit(domain, refs={"dataset_id": "d", "resource_id": f"r{number}"})).status_code == 202
    first, *_ = await dispatched(domain)
    await first.start()
    await first.commit()


async def test_active_jobs_are_those_of_every_platform_that_have_not_ended(platform: Platform) -> None:
    await jobs(platform.domain)
    told = (await read(platform, "active-jobs?limit=1")).json()
    assert (told["total"], len(told["jobs"])) == (2, 1)
    assert told["jobs"][0]["state"] == "pending"
    assert told["jobs"][0]["workflow_id"] == "raster_ingest"


async def test_recent_events_are_the_newest_first(platform: Platform) -> None:
    await jobs(platform.domain)
    events: list[dict[str, Any]] = (await read(platform, "recent-events?limit=5")).json()["events"]
    numbers = [event["event_id"] for event in events]
    assert numbers == sorted(numbers, reverse=True)
    [(newest,)] = platform.domain.rows("select max(event_id) from app.events")
    assert numbers[0] == newest


async def test_listed_workflows_are_those_that_partners_may_order(platform: Platform) -> None:
    offered = (await read(platform, "workflows")).json()["workflows"]
    assert [one["process_id"] for one in offered] == [
        "raster_ingest",
        "raster_ingest_staged",
        "raster_ingest_tiled",
        "vector_ingest",
    ]


def test_setting_that_holds_a_secret_is_masked() -> None:
    class Inner(BaseModel):
        token: SecretStr
        url: HttpUrl

    class Settings(BaseSettings):
        plain: int
        named: dict[str, Inner]
        listed: list[SecretStr]
        empty: SecretStr

    inner = {"token": "canary", "url": "https://user:canary@host.test/a?sig=canary"}
    made = Settings.model_validate({"plain": 1, "named": {"a": inner}, "listed": ["canary"], "empty": ""})
    found = shown(made)
    assert "canary" not in found.model_dump_json()
    assert found.settings == {
        "plain": 1,
        "named": {"a": {"token": "(set)", "url": "https://host.test/a"}},
        "listed": ["(set)"],
        "empty": "(not set)",
    }


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("https://a.test/b?c=d#e", "https://a.test/b"),
        ("https://user:p@ss@a.test:8443/b", "https://a.test:8443/b"),
        ("http://a.test", "http://a.test"),
    ],
)
def test_an_address_is_shown_without_its_credential(url: str, seen: str) -> None:
    assert without_credentials(url) == seen
