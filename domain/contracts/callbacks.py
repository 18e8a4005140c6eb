"""Callbacks as operators see them: what was to be told, to whom, and how every try went."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field

from domain.contracts.shown import ShownText

CallbackStateName = Literal["ready", "sending", "delivered", "failed", "disabled"]


class CallbackSummary(BaseModel):
    """One callback. `tries` counts since the last replay."""

    callback_id: UUID
    webhook_id: str
    request_id: UUID
    client_id: str
    url: ShownText
    status: str = Field(description="What the partner is told of its request")
    state: CallbackStateName
    tries: int
    next_try_at: datetime | None
    created_at: datetime
    finished_at: datetime | None
    endpoint_disabled_at: datetime | None


class Delivery(BaseModel):
    """One try."""

    at: datetime
    status_code: int | None
    error: ShownText | None
    excerpt: str | None
    duration_ms: int


class CallbackDetail(CallbackSummary):
    deliveries: list[Delivery]


class CallbackPage(BaseModel):
    """Newest first. `next` is the token of the next page."""

    callbacks: list[CallbackSummary]
    next: str | None


class CallbackSecretIssued(BaseModel):
    """Shown this once."""

    client_id: str
    callback_secret: str
    previous_signs_until: datetime | None = Field(description="Until then both secrets verify; None if it is the first")
