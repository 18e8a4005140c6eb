"""The items of a fan-out as operators read them, one by one."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from domain.contracts.shown import ShownFacts

ItemState = Literal["completed", "failed"]


class ItemRecord(BaseModel):
    """How one item ended. What it returned lies in run storage."""

    index: int
    key: str | None
    state: ItemState
    tries: int
    worker: str
    started_at: datetime
    ended_at: datetime
    problem: ShownFacts | None
    metrics: dict[str, float] | None


class ItemPage(BaseModel):
    """Items that have ended, in their order. `next` is the `after` of the next page."""

    node_id: str
    total: int | None = Field(description="Items of the fan-out, ended or not; unknown within a sub-workflow")
    completed: int
    failed: int
    items: list[ItemRecord]
    next: int | None
