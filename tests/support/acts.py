"""What tests have happen to the domain, each act through HTTP as its own caller would do it."""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg

from domain.repositories import outbox
from domain.rules.reconcile import Patience
from tests.support.platform import Domain, submission

CONTENT = b"x"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OUTPUTS = {"cog": "silver/x.tif", "validation": {"sha256": "f" * 64}}


async def submit(domain: Domain, **changes: Any) -> httpx.Response:
    async with domain.as_("gateway") as gateway:
        return await gateway.post("/api/v1/submit", json=submission(**changes))


async def call(domain: Domain, client_id: str, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
    """One request of one caller below /api/v1."""
    async with domain.as_(client_id) as caller:
        return await caller.request(method, f"/api/v1{path}", json=body, **more)


@dataclass
class Flow:
    """A flow run as the domain sees one: it knows its run, its token and its own id."""

    domain: Domain
    run_id: UUID
    token: str
    flow_run_id: UUID = field(default_factory=uuid4)

    async def say(self, verb: str, **content: Any) -> httpx.Response:
        body = {"attempt_token": self.token, **content}
        return await call(self.domain, "worker", "POST", f"/runs/{self.run_id}/{verb}", body)

    async def start(self, **more: Any) -> httpx.Response:
        return await self.say("start", flow_run_id=str(self.flow_run_id), **more)

    async def beat(self, *events: dict[str, Any]) -> httpx.Response:
        return await self.say("heartbeat", events=list(events))

    async def commit(self, outputs: dict[str, Any] | None = None, **more: Any) -> httpx.Response:
        return await self.say("commit", outputs=OUTPUTS if outputs is None else outputs, **more)

    def own(self, file: dict[str, Any], content: bytes = CONTENT, **changes: Any) -> dict[str, Any]:
        """The file, made by this run: it lies in its folder and holds this."""
        made = file | changes
        name = f"{self.home}/a1/{made['name']}"
        self.domain.service.zones.silver.write_bytes(name, content)
        digest = hashlib.sha256(content).hexdigest()
        return made | {"name": name, "sha256": digest, "size_bytes": len(content)}

    @property
    def home(self) -> str:
        """Where what this run makes for its revision lies."""
        query = (
            "select asset_id, ordinal, revision from app.runs join app.requests using (request_id) where run_id = %s"
        )
        [(asset_id, ordinal, revision)] = self.domain.rows(query, self.run_id)
        return f"assets/{asset_id}/{ordinal}-r{revision}"

    async def fail(self, verdict: str = "failed", **problem: Any) -> httpx.Response:
        told = {"code": "broken-raster", "message": "It is broken.", "partner_may_read": True} | problem
        return await self.say("fail", problem=told, verdict=verdict)


SHIFTS = """
    update app.attempts set {created_at}, {sent_at}, {started_at}, {heartbeat_at}, {finished_at}, {lease_until},
        {not_before};
    update app.pool_workers set {seen_at};
    update app.runs set {unroutable_since}, {started_at};
    update app.listening_spans set {noted_at} where %(away)s or noted_at < now() - make_interval(secs => %(gap)s);
    update app.listening_spans set {since}
"""


def time_passes(domain: Domain, seconds: float, *, away: bool = False) -> None:
    """Let so much time pass for attempts, workers and marks: with the domain there all the while, or away."""
    columns = set(re.findall(r"{(\w+)}", SHIFTS))
    shifts = SHIFTS.format_map({name: f"{name} = {name} - make_interval(secs => %(seconds)s)" for name in columns})
    values = {"seconds": seconds, "away": away, "gap": Patience().gap}
    with psycopg.connect(domain.database.url()) as connection:
        for shift in shifts.split(";"):
            connection.execute(shift.encode(), values)


async def dispatched(domain: Domain) -> list[Flow]:
    """Claim what is due, as a relay does, and hand each attempt to a flow run."""
    claimed = await outbox.claim(domain.service.database, 100)
    return [Flow(domain, dispatch.run_id, dispatch.token) for dispatch in claimed]


async def started(domain: Domain) -> Flow:
    """The one attempt that is due, started."""
    [flow] = await dispatched(domain)
    answer = await flow.start()
    assert answer.status_code == 200, answer.text
    return flow


async def processed(domain: Domain, **changes: Any) -> str:
    """Submit and process to completion; returns the asset's id."""
    accepted = await submit(domain, **changes)
    assert accepted.status_code == 202, accepted.text
    flow = await started(domain)
    assert (await flow.commit()).status_code == 200
    [(asset_id,)] = domain.rows(
        "select asset_id from app.requests where request_id = %s", accepted.json()["request_id"]
    )
    return str(asset_id)


async def decide(domain: Domain, asset_id: str, ordinal: int, verb: str, **body: Any) -> httpx.Response:
    """A reviewer's decision about a version; revision 1 and clearance `ouo` unless told otherwise."""
    usual: dict[str, dict[str, Any]] = {
        "approve": {"revision": 1, "clearance_level": "ouo"},
        "reject": {"revision": 1, "reason": "not this one"},
        "unpublish": {"revision": 1, "reason": "no longer"},
    }
    path = f"/assets/{asset_id}/versions/{ordinal}/{verb}"
    return await call(domain, body.pop("by", "reviewer"), "POST", path, usual[verb] | body)


async def keep_words(domain: Domain, asset_id: str, words: Any, *, by: str = "reviewer", if_match: str = "*") -> Any:
    """Words about the asset's layer, for whatever state it is in."""
    path, headers = f"/assets/{asset_id}/metadata", {"If-Match": if_match}
    return await call(domain, by, "PUT", path, words, headers=headers)


async def approved(domain: Domain, label: str = "1", **body: Any) -> str:
    """A version submitted, processed and approved; returns the asset's id."""
    asset_id = await processed(domain, version_label=label, source=f"uploads/{label}.tif")
    [(ordinal,)] = domain.rows("select max(ordinal) from app.asset_versions where asset_id = %s", asset_id)
    answer = await decide(domain, asset_id, ordinal, "approve", **body)
    assert answer.status_code == 200, answer.text
    return asset_id
