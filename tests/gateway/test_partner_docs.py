"""The programs in the partners' documentation run as they stand, against a real gateway."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from domain.db import Database
from domain.repositories import outbox
from domain.rules import callbacks
from domain.security import new_callback_secret
from domain.shared.database_address import DatabaseAddress
from gateway.forwarding.proxy_rules import ProxyTarget, is_allowed
from tests.support.clock import PATIENCE_SECONDS
from tests.support.cluster import TestDatabase
from tests.support.doors import Door, running_door

HOW_TO = Path(__file__).resolve().parents[2] / "docs/how-to"
SECRET = new_callback_secret()


@pytest.fixture
async def door(database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Door]:
    async with running_door(database, tmp_path) as running:
        monkeypatch.setenv("CAIRN_URL", running.url)
        monkeypatch.setenv("CAIRN_KEY", "secret-ddh-dev")
        monkeypatch.setenv("CAIRN_SOURCE", "uploads/ddh/dem.tif")
        monkeypatch.setenv("CAIRN_CALLBACK_SECRET", SECRET)
        yield running


def programs(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (HOW_TO / page).read_text(), re.DOTALL)


async def process_one(door: Door) -> None:
    """What a worker does: take the attempt that is due, start it, hand its outcome in."""
    database = Database(DatabaseAddress(door.database.url("cairn_app")), 1)
    try:
        claimed = await _due(database)
    finally:
        await database.close()
    [attempt] = claimed
    headers = {"Authorization": "Bearer secret-worker"}
    async with httpx.AsyncClient(base_url=door.domain_url, headers=headers, trust_env=False) as domain:
        path, token = f"/api/v1/runs/{attempt.run_id}", {"attempt_token": attempt.token}
        (await domain.post(f"{path}/start", json=token | {"flow_run_id": str(uuid4())})).raise_for_status()
        (await domain.post(f"{path}/commit", json=token | {"outputs": {"cog": "x.tif"}})).raise_for_status()


async def _due(database: Database) -> list[outbox.Dispatch]:
    """The attempt, as soon as there is one."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if claimed := await outbox.claim(database, 1):
            return list(claimed)
        await asyncio.sleep(0.1)
    raise TimeoutError("nothing was submitted")


async def test_a_partners_program_submits_follows_and_verifies(door: Door) -> None:
    submitting, receiving = programs("submit-as-a-partner.md")
    names: dict[str, Any] = {}
    working = asyncio.create_task(process_one(door))
    await asyncio.to_thread(exec, submitting, names)
    await working
    names["gateway"].close()
    assert names["status"]["status"] == "completed"
    assert names["status"]["result"]["approval"] == "pending_review"

    exec(receiving, names)  # noqa: S102 - our own documentation
    body = callbacks.body(uuid4(), "completed", f"{door.url}/api/platform/status/x", None)
    message_id, now = f"msg_{uuid4().hex}", int(time.time())
    signature = callbacks.signature([SECRET], message_id, now, body)
    headers = {"webhook-id": message_id, "webhook-timestamp": str(now), "webhook-signature": signature}
    receive = names["receive"]
    assert [receive(headers, body), receive(headers, body)] == [204, 204]
    assert names["heard"] == {message_id}
    assert receive(headers, body.replace(b"completed", b"failed")) == 401
    assert receive(headers | {"webhook-timestamp": str(now - 600)}, body) == 401


async def test_an_ogc_program_starts_a_job(door: Door) -> None:
    [program] = programs("use-ogc-processes.md")
    names: dict[str, Any] = {}
    await asyncio.to_thread(exec, program, names)
    async with httpx.AsyncClient(headers={"X-API-Key": "secret-ddh-dev"}, trust_env=False) as client:
        job = (await client.get(names["job"])).json()
    assert (job["status"], job["processID"]) == ("accepted", "raster_ingest")


def test_documented_proxy_targets_are_valid() -> None:
    [written] = re.findall(r"```json\n(.*?)```", (HOW_TO / "reach-internal-services.md").read_text(), re.DOTALL)
    for target in json.loads(written).values():
        paths = ProxyTarget.model_validate(target).paths
        assert is_allowed("flow_runs/42", paths)
        assert not is_allowed("admin/database/clear", paths)
