"""What the gateway asks the domain to take in, and what it answers."""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from domain.rules.keys import MARK

Priority = Literal["low", "normal", "high"]
RequestState = Literal["pending", "processing", "completed", "failed", "cancelled"]
DataType = Literal["raster", "vector"]
Operation = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
Ref = Annotated[str, Field(min_length=1, max_length=200)]


class SubmissionCreate(BaseModel):
    """One submission in the platform's own words: refs by the names of its registry row."""

    model_config = ConfigDict(extra="forbid")

    request_id: UUID
    platform_id: str = Field(max_length=63)
    client_id: str = Field(max_length=63)
    refs: dict[str, Ref] = Field(max_length=20)
    version_label: Ref
    data_type: DataType
    operation: Operation
    source: str = Field(min_length=1, max_length=900)
    parameters: dict[str, Any] = Field(default_factory=dict, max_length=50)
    priority: Priority = "normal"
    callback_url: str | None = Field(default=None, max_length=2000)
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=255)
    batch: str | None = Field(default=None, pattern=MARK, description="The mark of the batch that it came in")


class SubmissionAnswer(BaseModel):
    """Where the submission stands. `duplicate` means that an earlier, equal one is already being served."""

    request_id: UUID
    status: RequestState
    duplicate: bool = False
    priority: Priority = Field(
        default="normal", description="What its runs wait by: as asked, or the highest that the platform may have"
    )
