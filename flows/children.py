"""Child runs: a stretch of a plan executed by another flow run on another pool, told and answered by run storage.

A child shows that it lives by rewriting a small blob. Prefect alone cannot tell: a flow run whose worker was killed
with it stays `Running` for ever.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun

from domain.contracts.artifacts import Artifact
from domain.contracts.runs import RunFacts
from flows.compiler import Outcome, RunError, State
from flows.reporting import Line
from flows.storage import Store

SEGMENT_FLOW = "segment"
FIRST_LOOK_SECONDS = 0.3
LONGEST_LOOK_SECONDS = 3.0


class ChildLost(Exception):
    """A child run died, or ended without leaving its outcome: the machinery failed, not the work."""


@dataclass
class Life:
    """Whether a child still lives, by how long its sign has been the same. No clock but the watcher's own is used."""

    silence_seconds: float
    _sign: bytes | None = None
    _seen_at: float = 0.0

    def is_over(self, sign: bytes | None, now: float) -> bool:
        """True once the sign, having been there, has not changed for too long. A child that waits has none yet."""
        if sign is None:
            return False
        if sign != self._sign:
            self._sign, self._seen_at = sign, now
        return now - self._seen_at > self.silence_seconds


@dataclass
class SegmentRuns:
    """Starts child runs for one flow run and waits for them."""

    prefect: PrefectClient
    store: Store
    line: Line
    facts: RunFacts
    artifacts: list[Artifact]
    silence_seconds: float
    _count: int = field(default=0)

    async def run(self, pool: str, nodes: list[str], known: Mapping[str, Outcome]) -> Mapping[str, Outcome]:
        """Execute the nodes on the pool; returns how each of them ended."""
        self._count += 1
        place = segment_name(self.facts, self._count)
        order = {"nodes": nodes, "known": {name: outcome_json(outcome) for name, outcome in known.items()}}
        self.store.write_bytes(f"{place}/order.json", json.dumps(order).encode())
        run = await self._create(pool, self._count, nodes)
        await self._until_over(run.id, place)
        return self._collect(place)

    async def _create(self, pool: str, number: int, nodes: list[str]) -> FlowRun:
        deployment = await self.prefect.read_deployment_by_name(f"{SEGMENT_FLOW}/{pool}")
        return await self.prefect.create_flow_run_from_deployment(
            deployment.id,
            parameters={"run_id": str(self.line.run_id), "attempt_token": self.line.token, "segment": number},
            name=f"{self.facts.id[:8]} {', '.join(nodes)}"[:200],
            idempotency_key=f"{SEGMENT_FLOW}/{pool}:{self.facts.id}:{self.facts.attempt}:{number}",
        )

    async def _until_over(self, flow_run_id: UUID, place: str) -> None:
        """Look now and then until the run has ended; raise if it has died. When ours is told to stop, so is it."""
        pause, life = FIRST_LOOK_SECONDS, Life(self.silence_seconds)
        while True:
            await asyncio.sleep(pause)
            pause = min(pause * 1.3, LONGEST_LOOK_SECONDS)
            run = await self.prefect.read_flow_run(flow_run_id)
            if run.state is not None and run.state.is_final():
                return
            if life.is_over(self._sign(place), time.monotonic()):
                raise ChildLost(f"The child run for {place} has shown no life for {self.silence_seconds:.0f} s.")

    def _sign(self, place: str) -> bytes | None:
        name = sign_of_life(place)
        return self.store.read_bytes(name) if self.store.size_bytes(name) is not None else None

    def _collect(self, place: str) -> Mapping[str, Outcome]:
        if self.store.size_bytes(f"{place}/outcome.json") is None:
            raise ChildLost(f"The child run for {place} ended without an outcome.")
        outcome = json.loads(self.store.read_bytes(f"{place}/outcome.json"))
        self.artifacts += [Artifact.model_validate(artifact) for artifact in outcome["artifacts"]]
        return {name: outcome_from_json(ended) for name, ended in outcome["nodes"].items()}


def segment_name(facts: RunFacts, number: int) -> str:
    """Where a segment's order and outcome lie in run storage."""
    return f"{facts.id}/a{facts.attempt}/segment-{number}"


def sign_of_life(place: str) -> str:
    """The blob that a segment rewrites while it lives."""
    return f"{place}/alive"


@asynccontextmanager
async def showing_life(store: Store, place: str, every_seconds: float) -> AsyncIterator[None]:
    """Rewrite the segment's sign of life while the block runs."""

    async def beat() -> None:
        count = 0
        while True:
            count += 1
            store.write_bytes(sign_of_life(place), str(count).encode())
            await asyncio.sleep(every_seconds)

    heart = asyncio.create_task(beat())
    try:
        yield
    finally:
        heart.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await heart


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    error = outcome.error.__dict__ if outcome.error else None
    return {"state": outcome.state.value, "output": outcome.output, "error": error}


def outcome_from_json(data: Mapping[str, Any]) -> Outcome:
    error = RunError(**data["error"]) if data["error"] else None
    return Outcome(State(data["state"]), data["output"], error)
