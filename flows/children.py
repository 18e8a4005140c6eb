"""Child runs: a stretch of a plan executed by another flow run on another pool, told and answered by run storage."""

import asyncio
import json
from collections.abc import Mapping
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
    """A child run ended without leaving its outcome: the machinery failed, not the work."""


@dataclass
class SegmentRuns:
    """Starts child runs for one flow run and waits for them."""

    prefect: PrefectClient
    store: Store
    line: Line
    facts: RunFacts
    artifacts: list[Artifact]
    _count: int = field(default=0)

    async def run(self, pool: str, nodes: list[str], known: Mapping[str, Outcome]) -> Mapping[str, Outcome]:
        """Execute the nodes on the pool; returns how each of them ended."""
        self._count += 1
        place = segment_name(self.facts, self._count)
        order = {"nodes": nodes, "known": {name: outcome_json(outcome) for name, outcome in known.items()}}
        self.store.write_bytes(f"{place}/order.json", json.dumps(order).encode())
        run = await self._create(pool, self._count, nodes)
        await self._until_over(run.id)
        return self._collect(place)

    async def _create(self, pool: str, number: int, nodes: list[str]) -> FlowRun:
        deployment = await self.prefect.read_deployment_by_name(f"{SEGMENT_FLOW}/{pool}")
        return await self.prefect.create_flow_run_from_deployment(
            deployment.id,
            parameters={"run_id": str(self.line.run_id), "attempt_token": self.line.token, "segment": number},
            name=f"{self.facts.id[:8]} {', '.join(nodes)}"[:200],
            idempotency_key=f"{SEGMENT_FLOW}/{pool}:{self.facts.id}:{self.facts.attempt}:{number}",
        )

    async def _until_over(self, flow_run_id: UUID) -> None:
        """Look now and then until the run has ended, or until ours is told to stop: then it is told as well."""
        pause = FIRST_LOOK_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = min(pause * 1.3, LONGEST_LOOK_SECONDS)
            run = await self.prefect.read_flow_run(flow_run_id)
            if run.state is not None and run.state.is_final():
                return

    def _collect(self, place: str) -> Mapping[str, Outcome]:
        if self.store.size_bytes(f"{place}/outcome.json") is None:
            raise ChildLost(f"The child run for {place} ended without an outcome.")
        outcome = json.loads(self.store.read_bytes(f"{place}/outcome.json"))
        self.artifacts += [Artifact.model_validate(artifact) for artifact in outcome["artifacts"]]
        return {name: outcome_from_json(ended) for name, ended in outcome["nodes"].items()}


def segment_name(facts: RunFacts, number: int) -> str:
    """Where a segment's order and outcome lie in run storage."""
    return f"{facts.id}/a{facts.attempt}/segment-{number}"


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    error = outcome.error.__dict__ if outcome.error else None
    return {"state": outcome.state.value, "output": outcome.output, "error": error}


def outcome_from_json(data: Mapping[str, Any]) -> Outcome:
    error = RunError(**data["error"]) if data["error"] else None
    return Outcome(State(data["state"]), data["output"], error)
