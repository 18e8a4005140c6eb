"""What operators order: stop, go on, do again, how much at a time."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from domain.contracts.submissions import Priority, RequestState


class Scoped(BaseModel):
    """What an order is about: one workflow, one platform, or everything."""

    model_config = ConfigDict(extra="forbid")

    workflow_id: str | None = Field(default=None, max_length=63)
    platform_id: str | None = Field(default=None, max_length=63)

    @model_validator(mode="after")
    def _about_one_thing(self) -> "Scoped":
        if self.workflow_id and self.platform_id:
            raise ValueError("name a workflow or a platform, not both")
        return self


class Pause(Scoped):
    """Dispatch nothing new. What has started ends; what waits loses nothing."""

    reason: str = Field(min_length=3, max_length=2000)


class Resume(Scoped):
    """Take a pause back."""


class Limit(BaseModel):
    """Open requests of a platform, or attempts in flight on a pool, of a workflow or of a platform.

    None goes back to the service's own.
    """

    model_config = ConfigDict(extra="forbid")

    kind: Literal["open_requests", "in_flight"]
    of: Literal["pool", "workflow", "platform"] | None = Field(
        default=None, description="What `name` names. Unless said otherwise, a platform for open requests, else a pool"
    )
    name: str = Field(max_length=63, description="The platform, the workflow or the pool")
    value: int | None = Field(ge=0, le=1_000_000)

    @model_validator(mode="after")
    def _of_something(self) -> "Limit":
        if self.kind == "open_requests" and self.of not in {None, "platform"}:
            raise ValueError("open requests are limited by platform; attempts in flight by pool, workflow or platform")
        return self

    @property
    def about(self) -> Literal["pool", "workflow", "platform"]:
        return self.of or ("platform" if self.kind == "open_requests" else "pool")


class Cancel(BaseModel):
    """Stop a request. `client_id` is for whom the gateway asks: only their own platform's requests."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(min_length=3, max_length=2000)
    client_id: str | None = Field(default=None, max_length=63)


class Rerun(BaseModel):
    """Do a run again: what failed, or everything of its request; as it was pinned, or by the current definition."""

    model_config = ConfigDict(extra="forbid")

    scope: Literal["failed", "all"] = "failed"
    definition: Literal["pinned", "current"] = "pinned"


class Prioritise(BaseModel):
    model_config = ConfigDict(extra="forbid")

    priority: Priority


class RequestStands(BaseModel):
    """A request after an order about it."""

    request_id: UUID
    status: RequestState
    priority: Priority


class SettingView(BaseModel):
    """One pause or limit that holds now."""

    model_config = ConfigDict(from_attributes=True)

    kind: str
    name: str
    value: Any
    updated_by: str
    updated_at: datetime
