"""What a worker says of itself."""

from pydantic import BaseModel, ConfigDict, Field


class Beacon(BaseModel):
    """A worker takes work from the pool. Sent every ten seconds."""

    model_config = ConfigDict(extra="forbid")

    worker: str = Field(min_length=1, max_length=200, description="Its name: one for each worker of a pool")
    at_once: int | None = Field(
        default=None, ge=1, le=10_000, description="How many runs it does side by side without slowing them down"
    )
