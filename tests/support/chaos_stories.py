"""What people do about an asset while processes die: versions, resubmissions, approvals, cancellations, reruns.

Without them there is one attempt of one version of each asset, and no order that could be lost.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from tests.support.chaos import Platform

PATIENCE_SECONDS = 180.0
APPROVE = {"clearance_level": "ouo"}
Refs = dict[str, str]
Story = Callable[["Platform", Refs, str], Coroutine[Any, Any, None]]


def new_asset() -> Refs:
    return {"dataset_id": "chaos", "resource_id": uuid4().hex}


async def nothing_more(_made: "Platform", _refs: Refs, _request_id: str) -> None:
    """It is processed, and nobody looks at it."""


async def next_versions(made: "Platform", refs: Refs, request_id: str) -> None:
    """Each is approved before the next one comes."""
    for label in ("2", "3"):
        await approved(made, request_id)
        request_id = await made.submit(refs=refs, version_label=label, source=f"uploads/{label}.tif")


async def resubmitted(made: "Platform", refs: Refs, request_id: str) -> None:
    """Another file under the same label, while the one before is on its way or just done; the last one is approved."""
    for number in range(2):
        await asyncio.sleep(0.1 * number)
        request_id = await made.submit(refs=refs, source=f"uploads/{number}.tif")
    await approved(made, request_id)


async def cancelled(made: "Platform", _refs: Refs, request_id: str) -> None:
    """At once, or when it is on its way. Whoever works for it commits too late."""
    await asyncio.sleep(int(request_id[0], 16) / 40)
    answer = await made.ask("operator", f"/requests/{request_id}/cancel", {"reason": "chaos"})
    assert answer.status_code in {200, 409}, answer.text


async def cancelled_and_replaced(made: "Platform", refs: Refs, request_id: str) -> None:
    await cancelled(made, refs, request_id)
    await made.submit(refs=refs, source="uploads/again.tif")


STORIES: tuple[Story, ...] = (nothing_more, next_versions, resubmitted, cancelled, cancelled_and_replaced)


async def approved(made: "Platform", request_id: str) -> None:
    """Wait for the end of the request, done again where it failed, and approve what it made."""
    await ended(made, request_id)
    [(asset_id, ordinal, revision)] = made.rows(
        "select asset_id, ordinal, revision from app.requests where request_id = %s", request_id
    )
    path = f"/assets/{asset_id}/versions/{ordinal}/approve"
    answer = await made.ask("reviewer", path, APPROVE | {"revision": revision})
    assert answer.status_code in {200, 409}, answer.text  # 409: the answer to the first asking was lost


async def ended(made: "Platform", request_id: str) -> None:
    """Until the request is completed; a run that failed is done again."""
    try:
        await _ended(made, request_id)
    except TimeoutError:
        attempts = (
            "select number, a.state, dispatch_tries, flow_run_id, a.created_at, finished_at, r.state, r.reason"
            " from app.attempts a join (select run_id, request_id, state, reason from app.runs) r using (run_id)"
            " where request_id = %s order by number"
        )
        raise AssertionError(f"{request_id} does not end: {made.rows(attempts, request_id)}") from None


async def _ended(made: "Platform", request_id: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            [(status, run_id)] = made.rows(
                "select status, run_id from app.requests join app.runs using (request_id) where request_id = %s",
                request_id,
            )
            if status == "completed":
                return
            if status == "failed":
                await made.ask("operator", f"/runs/{run_id}/rerun", {"scope": "failed"})
            await asyncio.sleep(0.1)


async def all_done_again(made: "Platform") -> None:
    """Nobody leaves a failed run behind, but those that another submission under the same label has replaced."""
    failed = (
        "select request_id::text from app.requests r join app.asset_versions v using (asset_id, ordinal)"
        " where status = 'failed' and r.revision = v.newest_revision"
    )
    await asyncio.gather(*(ended(made, request_id) for (request_id,) in made.rows(failed)))
