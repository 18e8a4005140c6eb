"""The running Prefect server has the settings that reliability asks for, as it says itself and as it behaves."""

import json
from typing import Any

import httpx
import psycopg
import pytest
from cryptography.fernet import Fernet

from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def server(stack: RunningStack) -> dict[str, Any]:
    with stack.prefect() as prefect:
        settings: dict[str, Any] = prefect.get("/admin/settings").raise_for_status().json()["server"]
    return settings


def test_redis_carries_messages_order_leases_and_background_work(server: dict[str, Any]) -> None:
    assert server["events"]["messaging_broker"] == "deployments.event_stream"
    assert server["events"]["messaging_cache"] == "prefect_redis.messaging"
    assert server["events"]["causal_ordering"] == "prefect_redis.ordering"
    assert server["concurrency"]["lease_storage"] == "prefect_redis.lease_storage"
    assert not json.dumps(server["docket"]["url"]).strip('"').startswith("memory")


def test_prefects_database_is_postgresql(stack: RunningStack, server: dict[str, Any]) -> None:
    assert server["ephemeral"]["enabled"] is False
    assert stack.rows("select 1 from pg_stat_activity where datname = 'prefect' limit 1")
    # A repeatable read would wedge its state changes.
    assert stack.rows("show default_transaction_isolation") == [("read committed",)]


def test_prefect_refuses_calls_without_the_login_and_prompts_no_browser(stack: RunningStack) -> None:
    """Without a challenge a browser stores no login that it would send along with another site's request."""
    for kind in ("work_pools", "flow_runs", "deployments"):
        answer = httpx.post(f"{stack.url('prefect')}/api/{kind}/filter", json={})
        assert answer.status_code == 401
        assert "www-authenticate" not in answer.headers


def test_prefect_refuses_pages_of_other_origins(stack: RunningStack) -> None:
    def allowed(origin: str) -> str | None:
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        answer = httpx.options(f"{stack.url('prefect')}/api/flow_runs/filter", headers=asked)
        told: str | None = answer.headers.get("access-control-allow-origin")
        return told

    assert allowed("https://elsewhere.example") is None
    assert allowed(stack.url("prefect")) == stack.url("prefect")


def test_blocks_are_encrypted_with_a_key_outside_of_the_database(stack: RunningStack) -> None:
    key = json.loads((stack.folder / "secrets.json").read_text())["prefect_encryption"] + "="
    with psycopg.connect(stack.url("postgres").removesuffix("/cairn") + "/prefect") as connection:
        ((sealed,),) = connection.execute("select data from block_document where name = 'cairn'").fetchall()
        kept = connection.execute("select 1 from configuration where key = 'ENCRYPTION_KEY'").fetchone()
    assert json.loads(Fernet(key).decrypt(sealed)) == {"root": str(stack.folder / "storage")}
    assert kept is None


def test_csrf_protection_of_prefect_is_off_on_purpose(server: dict[str, Any]) -> None:
    """docs/decisions: the login is no cookie, so there is nothing that a forged request could ride on."""
    assert server["api"]["csrf_protection_enabled"] is False
