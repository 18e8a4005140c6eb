"""What a worker says of itself."""

from pydantic import BaseModel, ConfigDict, Field


class Beacon(BaseModel):
    """A worker takes work from the pool. Sent every ten seconds."""

    model_config = ConfigDict(extra="forbid")

    worker: str = Field(min_length=1, max_length=200, description="Its name: one for each worker of a pool")
    loop_lag_seconds: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="How late its event loop woke, at worst, of late"
    )
