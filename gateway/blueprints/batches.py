"""Many submissions in one call, each judged on its own."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Header
from pydantic import BaseModel, ConfigDict, Field

from domain.contracts.platforms import PlatformRow
from domain.contracts.problems import Problem, ProblemError
from domain.contracts.submissions import RequestState
from domain.rules.clearance import Identity
from gateway import translate
from gateway.auth import Partner
from gateway.blueprints.platform import SUBMISSION_EXAMPLE, Accepted, accept, platform_of
from gateway.documents import SUBMISSION_SCHEMA
from gateway.errors import BehindUnavailable
from gateway.state import Gateway, gateway

router = APIRouter(prefix="/api/gateway", tags=["batch"])
State = Annotated[Gateway, Depends(gateway)]
MOST = 1000
Key = Annotated[str, Field(min_length=1, max_length=240)]
EXAMPLE = {
    "submissions": [
        {"submission": SUBMISSION_EXAMPLE | {"resource_id": f"dem-{number}"}, "idempotency_key": f"dem-{number}"}
        for number in (1, 2)
    ]
}


class BatchItem(BaseModel):
    """One submission in the platform's own words, with a key of its own where it has one."""

    model_config = ConfigDict(extra="forbid")

    submission: dict[str, Any] = Field(json_schema_extra=SUBMISSION_SCHEMA)
    idempotency_key: Key | None = None


class Batch(BaseModel):
    model_config = ConfigDict(extra="forbid")

    submissions: list[BatchItem] = Field(min_length=1, max_length=MOST)


class ItemResult(BaseModel):
    """What became of one submission: as a call of its own would have answered."""

    index: int
    status_code: int
    request_id: UUID | None = None
    status: RequestState | None = None
    status_url: str | None = None
    duplicate: bool = False
    problem: Problem | None = None


class BatchResult(BaseModel):
    """In the order of the batch."""

    accepted: int
    duplicates: int
    refused: int
    results: list[ItemResult]


@dataclass
class Desk:
    """Hands a batch in. Submissions about the same asset take turns, in their order; others go side by side."""

    caller: Identity
    platform: PlatformRow
    state: Gateway
    outage: ProblemError | None = None

    async def hand_in(self, items: Sequence[BatchItem], key: str | None) -> list[ItemResult]:
        turns = self.state.batch_turns[self.platform.platform_id]

        async def one_after_the_other(indices: list[int]) -> list[ItemResult]:
            async with turns:
                return [await self._one(index, items[index], key_of(items[index], key, index)) for index in indices]

        queues: dict[str, list[int]] = {}
        for index, item in enumerate(items):
            queues.setdefault(asset_words(item.submission, self.platform), []).append(index)
        done = await asyncio.gather(*map(one_after_the_other, queues.values()))
        return sorted((result for results in done for result in results), key=lambda result: result.index)

    async def _one(self, index: int, item: BatchItem, key: str | None) -> ItemResult:
        if self.outage is not None:  # what does not answer one does not answer the next
            return _refused(index, self.outage)
        try:
            accepted = await accept(item.submission, self.platform, self.caller, self.state, key)
        except BehindUnavailable as error:
            self.outage = error
            return _refused(index, error)
        except ProblemError as error:
            return _refused(index, error)
        return _accepted(index, accepted)


def key_of(item: BatchItem, of_the_batch: str | None, index: int) -> str | None:
    """An item's own key, or one that follows from the batch's: the same batch again makes no second request."""
    if item.idempotency_key is not None:
        return item.idempotency_key
    return None if of_the_batch is None else f"{of_the_batch}#{index}"


def asset_words(body: Mapping[str, Any], platform: PlatformRow) -> str:
    """What a submission says of its asset. Equal for submissions about the same one."""
    return json.dumps(translate.named(body, platform), sort_keys=True, default=str)


def _accepted(index: int, accepted: Accepted) -> ItemResult:
    return ItemResult(index=index, status_code=200 if accepted.duplicate else 202, **accepted.model_dump())


def _refused(index: int, error: ProblemError) -> ItemResult:
    problem = error.problem()
    return ItemResult(index=index, status_code=problem.status, problem=problem)


@router.post("/submit/batch", status_code=207, response_model_exclude_none=True)
async def submit_batch(
    batch: Annotated[Batch, Body(examples=[EXAMPLE])],
    caller: Partner,
    state: State,
    idempotency_key: Annotated[Key | None, Header()] = None,
) -> BatchResult:
    """Submit up to 1,000 at once. Each is judged on its own; sending the same batch again changes nothing."""
    # The call itself is paid for; the rest is before anything is waited for, or others would pass on the same balance.
    state.rates.charge(caller, len(batch.submissions) - 1)
    desk = Desk(caller, await platform_of(caller, state), state)
    results = await desk.hand_in(batch.submissions, idempotency_key)
    if desk.outage is not None and all(result.problem is not None for result in results):
        raise desk.outage
    return BatchResult(
        accepted=sum(result.status_code == 202 for result in results),
        duplicates=sum(result.duplicate for result in results),
        refused=sum(result.problem is not None for result in results),
        results=results,
    )
