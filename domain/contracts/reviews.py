"""Decisions that people make about a version's revision."""

from datetime import datetime
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

ClearanceLevel = Literal["uncleared", "ouo", "public"]


class Approve(BaseModel):
    model_config = ConfigDict(extra="forbid")

    revision: int = Field(ge=1)
    clearance_level: Literal["ouo", "public"]
    comment: str | None = Field(default=None, max_length=2000)
    content_hash: str | None = Field(
        default=None, pattern="^[0-9a-f]{64}$", description="What was looked at; refused where it is another by now"
    )
    expires_at: AwareDatetime | None = Field(
        default=None, description="When this approval ends, if not withdrawn first"
    )


class Reject(BaseModel):
    model_config = ConfigDict(extra="forbid")

    revision: int = Field(ge=1)
    reason: str = Field(min_length=3, max_length=2000)


class Unpublish(BaseModel):
    """Stop serving the approved revision. It awaits a decision again; nothing of it is deleted."""

    model_config = ConfigDict(extra="forbid")

    revision: int = Field(ge=1)
    reason: str = Field(min_length=3, max_length=2000)


class Withdraw(BaseModel):
    """Take back one's own approval. Where too few are left, the revision is no longer served."""

    model_config = ConfigDict(extra="forbid")

    revision: int = Field(ge=1)
    reason: str = Field(min_length=3, max_length=2000)


class ApprovalView(BaseModel):
    """One reviewer's approval of a revision. It counts until it is withdrawn, ends, or the content is another."""

    model_config = ConfigDict(from_attributes=True)

    revision: int
    reviewer: str
    clearance_level: ClearanceLevel
    comment: str | None
    content_hash: str | None
    given_at: datetime
    expires_at: datetime | None
    withdrawn_at: datetime | None
    withdrawn_reason: str | None


class Decision(BaseModel):
    """The state of a revision after a decision."""

    asset_id: str
    ordinal: int
    revision: int
    approval: Literal["pending_review", "approved", "rejected"]
    clearance: ClearanceLevel
    latest_ordinal: int | None
    approvals: int = Field(description="How many count now")
    approvals_required: int
