"""The gateway's figures: for operators and whoever holds the token; partners and the public read none."""

from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from tests.support.cluster import TestDatabase
from tests.support.platform import Platform, running_platform

TOKEN = "0123456789abcdef-watching"


@pytest.mark.parametrize(
    ("client", "status"), [(None, 401), ("nobody", 401), ("ddh-dev", 403), ("reviewer", 403), ("operator", 200)]
)
async def test_metrics_are_for_operators_only(platform: Platform, client: str | None, status: int) -> None:
    async with platform.as_(client) as caller:
        assert (await caller.get("/metrics")).status_code == status
        assert (await caller.get("/api/metrics")).status_code == 404


async def test_metrics_token_opens_the_metrics_only(database: TestDatabase, tmp_path: Path) -> None:
    async with (
        running_platform(database, tmp_path, metrics_token=SecretStr(TOKEN)) as platform,
        httpx.AsyncClient(transport=platform.gateway, base_url="http://gateway") as prometheus,
    ):
        for shown, status in ((TOKEN, 200), (TOKEN + "x", 401)):
            answer = await prometheus.get("/metrics", headers={"Authorization": f"Bearer {shown}"})
            assert answer.status_code == status
        assert (await prometheus.get("/api/admin/config", headers={"X-API-Key": TOKEN})).status_code == 401


async def test_metrics_show_routes_by_template_and_connections(platform: Platform) -> None:
    async with platform.as_("ddh-dev") as partner:
        await partner.get("/api/platform/status/0b5c9c1e-0000-4000-8000-000000000000")
    async with platform.as_("operator") as operator:
        text = (await operator.get("/metrics")).text
    assert 'route="/api/platform/status/{request_id}",status="4xx"' in text
    assert "0b5c9c1e" not in text
    assert 'cairn_database_connections{kind="most",pool="gateway"} 8.0' in text
