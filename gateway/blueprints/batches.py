"""Many submissions in one call, each judged on its own."""

import json
import logging
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
from domain.rules.keys import batch_mark, item_key
from domain.shared.together import each_to_its_end
from gateway import translate
from gateway.auth import Partner
from gateway.blueprints.platform import SUBMISSION_EXAMPLE, Accepted, ClientKey, accept, platform_of
from gateway.documents import SUBMISSION_SCHEMA
from gateway.errors import BehindUnavailable, CoreFailed
from gateway.state import Gateway, gateway

log = logging.getLogger("cairn.api")
router = APIRouter(prefix="/api/gateway", tags=["batch"])
State = Annotated[Gateway, Depends(gateway)]
MOST = 1000
Key = Annotated[ClientKey, Field(max_length=240)]
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
    """Submits a batch. Submissions about the same asset take turns in their order; others go concurrently."""

    caller: Identity
    platform: PlatformRow
    state: Gateway
    mark: str | None
    end: ProblemError | None = None  # what is true of one and of all that follow

    async def hand_in(self, items: Sequence[BatchItem]) -> list[ItemResult]:
        turns = self.state.batch_turns[self.platform.platform_id]

        async def one_after_the_other(indices: list[int]) -> list[ItemResult]:
            async with turns:
                return [await self._submit_item(index, items[index]) for index in indices]

        queues: dict[str, list[int]] = {}
        for index, item in enumerate(items):
            queues.setdefault(asset_words(item.submission, self.platform), []).append(index)
        done = await each_to_its_end(map(one_after_the_other, queues.values()))
        return sorted((result for results in done for result in results), key=lambda result: result.index)

    async def _submit_item(self, index: int, item: BatchItem) -> ItemResult:
        if self.end is not None:  # what does not answer one does not answer the next
            return _refused(index, self.end)
        key = key_of(item, self.mark, index)
        try:
            accepted = await accept(item.submission, self.platform, self.caller, self.state, key, self.mark)
        except ProblemError as error:
            if isinstance(error, BehindUnavailable) or is_another_batchs(error):
                self.end = error
            return _refused(index, error)
        except Exception:  # one that we fail at must not hide what became of the others
            log.exception("a submission of a batch failed", extra={"index": index})
            return _refused(index, CoreFailed("This is our fault; it was logged. Others of the batch went on."))
        return _accepted(index, accepted)

    def refuse_all(self, results: Sequence[ItemResult]) -> None:
        """Raise where the batch itself is refused, or nothing of it came through."""
        if self.end is not None and (is_another_batchs(self.end) or all(one.problem is not None for one in results)):
            raise self.end


def key_of(item: BatchItem, mark: str | None, index: int) -> str | None:
    """Return the item's own key, or one made from the batch's, so that a repetition makes no second request."""
    if item.idempotency_key is not None:
        return item.idempotency_key
    return None if mark is None else item_key(mark, index)


def is_another_batchs(error: ProblemError) -> bool:
    """Whether the domain knows the batch's key from another batch: then it took nothing of this one."""
    return error.code == "idempotency-key-reused" and error.extra.get("about") == "batch"


def asset_words(body: Mapping[str, Any], platform: PlatformRow) -> str:
    """Return what a submission says of its asset, equal for submissions about the same one."""
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
    """Submit up to 1,000 at once. Each is judged on its own; sending the same batch again changes nothing.

    Another batch under the same `Idempotency-Key` is refused as a whole.
    """
    # The call itself is paid for; the rest is before anything is waited for, or others would pass on the same balance.
    state.rates.charge(caller, len(batch.submissions) - 1)
    mark = None if idempotency_key is None else batch_mark(idempotency_key, batch.model_dump())
    desk = Desk(caller, await platform_of(caller, state), state, mark)
    results = await desk.hand_in(batch.submissions)
    desk.refuse_all(results)
    return BatchResult(
        accepted=sum(result.status_code == 202 for result in results),
        duplicates=sum(result.duplicate for result in results),
        refused=sum(result.problem is not None for result in results),
        results=results,
    )
