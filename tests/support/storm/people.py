"""Partners and reviewers of a stack: what each does is asked for until it is done, and written down."""

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from domain.security import secret_hash
from tests.support.stack import RunningStack
from tests.support.storm.callers import PATIENCE_SECONDS, Caller, code_of
from tests.support.storm.journal import Entry, Journal, Served

SECOND = "second-reviewer"
SECRET = "secret-of-the-second-reviewer"  # of a stack that ends with the test
OPEN = {"pending", "processing"}
TIMEOUT_SECONDS = 45.0  # a status is held for 20; who is frozen is given up
REFS: Mapping[str, tuple[str, str, str]] = {
    "ddh": ("dataset_id", "resource_id", "version_id"),
    "arcgis": ("item_id", "layer_index", "version"),
}
QUORUM = {"ddh": 1, "arcgis": 2}


@dataclass
class People:
    """Everybody who has to do with the stack."""

    stack: RunningStack
    http: httpx.AsyncClient
    dice: random.Random
    journal: Journal = field(default_factory=Journal)
    partners: dict[str, Caller] = field(default_factory=dict)
    reviewers: list[Caller] = field(default_factory=list)

    def __post_init__(self) -> None:
        urls = {name: self.stack.url(name) for name in ("gateway", "domain")}
        credentials = self.stack.credentials()
        introduce(self.stack)

        def caller(**headers: str) -> Caller:
            return Caller(urls.__getitem__, headers, self.http, faults=self.journal.faults)

        keys = {name: credentials["clients"][name]["api_key"] for name in REFS}
        self.partners = {name: caller(**{"X-API-Key": key}) for name, key in keys.items()}
        tokens = (credentials["reviewer"]["token"], SECRET)
        self.reviewers = [caller(Authorization=f"Bearer {token}") for token in tokens]

    @property
    def everybody(self) -> list[Caller]:
        return [*self.partners.values(), *self.reviewers]

    # --- partners ---

    async def submit(self, entry: Entry, body: dict[str, Any]) -> Entry:
        """Hand it in, again and again under its key, until it is accepted."""
        self.journal.entries.append(entry)
        answer = await self.partners[entry.platform].ask(
            "POST", "gateway", "/api/platform/submit", json=body, headers={"Idempotency-Key": entry.key}
        )
        if answer.status_code in {200, 202}:
            entry.request_id = answer.json()["request_id"]
        else:
            self.wrong(entry, "submission", answer)
        return entry

    async def follow(self, entry: Entry) -> bool:
        """Ask until it has ended. True where it was processed, so that somebody can decide about it."""
        end = time.monotonic() + PATIENCE_SECONDS
        while entry.request_id and not entry.ended and time.monotonic() < end:
            status = await self._status(entry)
            if status and status["status"] not in OPEN:
                entry.ended = status["status"]
                entry.problem = (
                    f"{(status['problem'] or {}).get('code', '')} {(status['problem'] or {}).get('detail', '')}"
                )
                if result := status["result"]:
                    entry.asset_id, entry.ordinal, entry.revision = (
                        result["asset_id"], result["version"], result["revision"]
                    )  # fmt: skip
        return entry.ended == "completed"

    async def _status(self, entry: Entry) -> dict[str, Any] | None:
        path = f"/api/platform/status/{entry.request_id}"
        answer = await self.partners[entry.platform].ask("GET", "gateway", path, params={"wait": 15})
        if answer.status_code != httpx.codes.OK:
            self.wrong(entry, "status", answer)
            await asyncio.sleep(1)
            return None
        told: dict[str, Any] = answer.json()
        return told

    async def cancel(self, entry: Entry) -> None:
        body = {"request_id": entry.request_id, "reason": "changed our mind"}
        answer = await self.partners[entry.platform].ask("POST", "gateway", "/api/platform/cancel", json=body)
        self.expect(entry, "cancel", answer, "already-finished")

    # --- reviewers ---

    async def approve(self, entry: Entry, clearance: Served) -> None:
        """As many reviewers as the platform asks for. From then on it is served, whatever dies."""
        for reviewer in self.reviewers[: QUORUM[entry.platform]]:
            body = {"request_id": entry.request_id, "clearance_level": clearance}
            answer = await reviewer.ask("POST", "gateway", "/api/platform/approve", json=body)
            self.expect(entry, "approve", answer, "not-reviewable")
        entry.served, entry.approval = clearance, "approved"

    async def reject(self, entry: Entry) -> None:
        body = {"request_id": entry.request_id, "reason": "the edge is cut off"}
        answer = await self.reviewers[0].ask("POST", "gateway", "/api/platform/reject", json=body)
        self.expect(entry, "reject", answer, "not-reviewable")
        entry.approval = "rejected"

    async def unpublish(self, entry: Entry) -> None:
        body = {"request_id": entry.request_id, "reason": "a newer survey is out"}
        answer = await self.reviewers[-1].ask("POST", "gateway", "/api/platform/unpublish", json=body)
        self.expect(entry, "unpublish", answer, "not-reviewable")
        entry.served, entry.approval = None, "pending_review"

    async def vote(self, entry: Entry, *, back: bool) -> None:
        """One reviewer's own approval where two are asked for, or its taking back."""
        body: dict[str, Any] = {"revision": entry.revision}
        body |= {"reason": "looked again"} if back else {"clearance_level": "ouo"}
        path = f"{_version(entry)}/{'withdraw' if back else 'approve'}"
        answer = await self.reviewers[0].ask("POST", "domain", path, json=body)
        self.expect(entry, "withdraw" if back else "vote", answer, "not-reviewable")
        entry.approval = "pending_review"

    async def delete(self, entry: Entry) -> None:
        answer = await self.reviewers[0].ask(
            "DELETE", "domain", _version(entry), params={"reason": "not needed"}, headers={"If-Match": "*"}
        )
        self.expect(entry, "delete", answer, "not-found")
        entry.deleted, entry.approval = True, None

    # --- what is said of it ---

    def expect(self, entry: Entry, deed: str, answer: httpx.Response, done_before: str) -> None:
        """It is done: now, or by an asking whose answer was lost, which the refusal of the next one tells."""
        self.journal.deeds[deed] += 1
        if not answer.is_success and code_of(answer) != done_before:
            self.wrong(entry, deed, answer)

    def wrong(self, entry: Entry, deed: str, answer: httpx.Response) -> None:
        said = f"{answer.status_code} {answer.text[:300]}"
        self.journal.faults.append(f"{deed} of {entry.story} {entry.request_id} was answered {said}")


def _version(entry: Entry) -> str:
    return f"/api/v1/assets/{entry.asset_id}/versions/{entry.ordinal}"


def new_entry(story: str, platform: str, **more: Any) -> Entry:
    return Entry(story, platform, uuid4().hex, **more)


def refs(platform: str, number: str, version: str = "1") -> dict[str, str]:
    """The names of an asset and a version in the platform's words."""
    dataset, resource, label = REFS[platform]
    return {dataset: f"storm-{number}", resource: "1", label: version}


def introduce(stack: RunningStack) -> None:
    """A second reviewer, and how many of them each platform asks for."""
    with psycopg.connect(stack.url("postgres")) as connection:
        connection.execute(
            "insert into app.clients (client_id, role, display_name, secret_hash) values (%s, 'reviewer', %s, %s)"
            " on conflict do nothing",
            [SECOND, SECOND, secret_hash(SECRET)],
        )
        for platform, quorum in QUORUM.items():
            connection.execute(
                "update app.platforms set approvals_required = %s where platform_id = %s", [quorum, platform]
            )
