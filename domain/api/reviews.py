"""Decisions about versions, and the words that go with them: for reviewers."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends

from domain.api.dependencies import Deciding, Session, allowed, decider_beforehand, deciding
from domain.contracts.reviews import ApprovalView, Approve, Decision, Reject, Unpublish, Withdraw
from domain.repositories.approvals import Approvals
from domain.security import STAFF, Identity

router = APIRouter(prefix="/api/v1", tags=["reviewers"])
STAFF_ONLY = [Depends(allowed(*STAFF))]
Decider = Annotated[Identity, Depends(decider_beforehand)]
Decisions = Annotated[Deciding, Depends(deciding)]


@router.post("/assets/{asset_id}/versions/{ordinal}/approve")
async def approve(asset_id: str, ordinal: int, decision: Approve, decide: Decisions, reviewer: Decider) -> Decision:
    """Approve this revision. It is served once as many have as its platform asks for."""
    return await decide(lambda desk: desk.approve(asset_id, ordinal, decision, reviewer))


@router.post("/assets/{asset_id}/versions/{ordinal}/reject")
async def reject(asset_id: str, ordinal: int, decision: Reject, decide: Decisions, reviewer: Decider) -> Decision:
    """Refuse this revision, with a reason."""
    return await decide(lambda desk: desk.reject(asset_id, ordinal, decision, reviewer))


@router.post("/assets/{asset_id}/versions/{ordinal}/unpublish")
async def unpublish(asset_id: str, ordinal: int, decision: Unpublish, decide: Decisions, reviewer: Decider) -> Decision:
    """Stop serving this revision. It awaits a decision again."""
    return await decide(lambda desk: desk.unpublish(asset_id, ordinal, decision, reviewer))


@router.post("/assets/{asset_id}/versions/{ordinal}/withdraw")
async def withdraw(asset_id: str, ordinal: int, decision: Withdraw, decide: Decisions, reviewer: Decider) -> Decision:
    """Take back one's own approval."""
    return await decide(lambda desk: desk.withdraw(asset_id, ordinal, decision, reviewer))


@router.get("/assets/{asset_id}/versions/{ordinal}/approvals", dependencies=STAFF_ONLY)
async def list_approvals(asset_id: str, ordinal: int, session: Session) -> Sequence[ApprovalView]:
    """Who approved which revision of the version, withdrawn approvals included."""
    return [ApprovalView.model_validate(row) for row in await Approvals(session).of_version(asset_id, ordinal)]
