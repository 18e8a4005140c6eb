"""Decisions that people make about a version's revision."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

ClearanceLevel = Literal["uncleared", "ouo", "public"]


class Approve(BaseModel):
    model_config = ConfigDict(extra="forbid")

    revision: int = Field(ge=1)
    clearance_level: Literal["ouo", "public"]
    comment: str | None = Field(default=None, max_length=2000)


class Reject(BaseModel):
    model_config = ConfigDict(extra="forbid")

    revision: int = Field(ge=1)
    reason: str = Field(min_length=3, max_length=2000)


class Unpublish(BaseModel):
    """Stop serving the approved revision. It awaits a decision again; nothing of it is deleted."""

    model_config = ConfigDict(extra="forbid")

    revision: int = Field(ge=1)
    reason: str = Field(min_length=3, max_length=2000)


class Decision(BaseModel):
    """The state of a revision after a decision."""

    asset_id: str
    ordinal: int
    revision: int
    approval: Literal["pending_review", "approved", "rejected"]
    clearance: ClearanceLevel
    latest_ordinal: int | None
