"""Requests of a partner in every state that somebody may ask about, and the people who do."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg

from domain.security import secret_hash
from tests.support.acts import Flow, dispatched
from tests.support.platform import Platform

CANARY = "canary-7f3a"
BODY: dict[str, Any] = {
    "dataset_id": CANARY,
    "resource_id": "dem",
    "version_id": f"{CANARY}-1",
    "data_type": "raster",
    "operation": "ingest",
    "source": f"uploads/{CANARY}.tif",
}
# Beside the platform's own: people whom a partner has named to decide.
PEOPLE = (("ddh-reviewer", "ddh", ["review"]), ("arcgis-reviewer", "arcgis", ["review"]))


def add_people(platform: Platform) -> None:
    with psycopg.connect(platform.domain.database.url()) as connection:
        for client_id, platform_id, scopes in PEOPLE:
            connection.execute(
                "insert into app.clients (client_id, role, platform_id, display_name, secret_hash, scopes)"
                " values (%s, 'partner', %s, %s, %s, %s)",
                [client_id, platform_id, client_id, secret_hash(f"secret-{client_id}"), scopes],
            )


@dataclass(frozen=True)
class Known:
    """The ids of one request and of what lies behind it."""

    request_id: str
    asset_id: str
    ordinal: int
    run_id: str
    flow_run_id: str
    token: str

    @property
    def inner(self) -> tuple[str, ...]:
        """What no partner may ever read."""
        return self.run_id, self.flow_run_id, self.token


async def call(platform: Platform, client_id: str | None, method: str, path: str, **more: Any) -> httpx.Response:
    async with platform.as_(client_id) as caller:
        return await caller.request(method, path, **more)


async def submitted(platform: Platform, **changes: Any) -> Known:
    """A request of ddh that waits for a worker."""
    accepted = await call(platform, "ddh-dev", "POST", "/api/platform/submit", json=BODY | changes)
    assert accepted.status_code == 202, accepted.text
    request_id = accepted.json()["request_id"]
    [(asset_id, ordinal, run_id, token)] = platform.domain.rows(
        "select q.asset_id, q.ordinal, r.run_id, t.token from app.requests q join app.runs r using (request_id)"
        " join app.attempts t using (run_id) where q.request_id = %s",
        request_id,
    )
    return Known(request_id, asset_id, ordinal, str(run_id), str(uuid4()), token)


async def started(platform: Platform, **changes: Any) -> Known:
    """One that a flow run works for."""
    known = await submitted(platform, **changes)
    await dispatched(platform.domain)
    answer = await _flow(platform, known).start()
    assert answer.status_code == 200, answer.text
    return known


async def processed(platform: Platform, **changes: Any) -> Known:
    """One that awaits a decision."""
    known = await started(platform, **changes)
    answer = await _flow(platform, known).commit()
    assert answer.status_code == 200, answer.text
    return known


async def approved(platform: Platform, **changes: Any) -> Known:
    """One whose product is served."""
    known = await processed(platform, **changes)
    decision = {"request_id": known.request_id, "clearance_level": "ouo"}
    answer = await call(platform, "reviewer", "POST", "/api/platform/approve", json=decision)
    assert answer.status_code == 200, answer.text
    return known


async def failed(platform: Platform, **changes: Any) -> Known:
    """One that came to nothing."""
    known = await started(platform, **changes)
    assert (await _flow(platform, known).fail()).status_code == 200
    return known


def _flow(platform: Platform, known: Known) -> Flow:
    return Flow(platform.domain, UUID(known.run_id), known.token, UUID(known.flow_run_id))


async def finish(platform: Platform, known: Known) -> None:
    assert (await _flow(platform, known).commit()).status_code == 200


async def start(platform: Platform, known: Known) -> None:
    await dispatched(platform.domain)
    assert (await _flow(platform, known).start()).status_code == 200
