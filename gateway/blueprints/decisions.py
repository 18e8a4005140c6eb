"""Reviewers, and whom partners named for it, decide about what a request produced. The domain judges."""

from typing import Annotated, Literal

from fastapi import APIRouter, Body
from pydantic import Field

from domain.contracts.reviews import Approve, Decision, Reject, Unpublish
from gateway.auth import Reader, Secret
from gateway.blueprints.platform import SOME_REQUEST, AboutRequest, Reason, State, readable
from gateway.errors import NotFound
from gateway.reads.queries import RequestRow

router = APIRouter(prefix="/api/platform", tags=["platform"])


class ApproveRequest(AboutRequest):
    """Approve the revision that a request produced."""

    clearance_level: Literal["ouo", "public"]
    comment: str | None = Field(default=None, max_length=2000)


class RejectRequest(AboutRequest):
    """Reject the revision that a request produced."""

    reason: Reason


class UnpublishRequest(AboutRequest):
    """Stop serving the revision that a request produced."""

    reason: Reason


@router.post("/approve")
async def approve(
    body: Annotated[ApproveRequest, Body(examples=[{"request_id": SOME_REQUEST, "clearance_level": "public"}])],
    caller: Reader,
    secret: Secret,
    state: State,
) -> Decision:
    """Approve what a request produced. The domain judges the decision by your own credential."""
    asset_id, ordinal, revision = _version_of(await readable(body.request_id, caller, state))
    decision = Approve(revision=revision, clearance_level=body.clearance_level, comment=body.comment)
    return await state.domain.approve(asset_id, ordinal, decision, secret)


@router.post("/reject")
async def reject(
    body: Annotated[RejectRequest, Body(examples=[{"request_id": SOME_REQUEST, "reason": "The edge is cut off"}])],
    caller: Reader,
    secret: Secret,
    state: State,
) -> Decision:
    """Reject what a request produced, with a reason."""
    asset_id, ordinal, revision = _version_of(await readable(body.request_id, caller, state))
    return await state.domain.reject(asset_id, ordinal, Reject(revision=revision, reason=body.reason), secret)


@router.post("/unpublish")
async def unpublish(
    body: Annotated[UnpublishRequest, Body(examples=[{"request_id": SOME_REQUEST, "reason": "A newer survey is out"}])],
    caller: Reader,
    secret: Secret,
    state: State,
) -> Decision:
    """Stop serving what a request produced. It awaits a decision again."""
    asset_id, ordinal, revision = _version_of(await readable(body.request_id, caller, state))
    return await state.domain.unpublish(asset_id, ordinal, Unpublish(revision=revision, reason=body.reason), secret)


def _version_of(row: RequestRow) -> tuple[str, int, int]:
    if row.asset_id is None or row.ordinal is None or row.revision is None:
        raise NotFound("This request has no version to decide about.")
    return row.asset_id, row.ordinal, row.revision
