"""What a worker says of itself, and what it is told."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

HandlerName = Annotated[str, Field(max_length=200)]


class Beacon(BaseModel):
    """A worker takes work from the pool. Sent every ten seconds."""

    model_config = ConfigDict(extra="forbid")

    handlers: list[HandlerName] | None = Field(
        default=None, max_length=2000, description="The handlers of its image, with which it takes runs that await one"
    )
    worker: str = Field(min_length=1, max_length=200, description="Its name: one for each worker of a pool")
    at_once: int | None = Field(
        default=None, ge=1, le=10_000, description="How many runs it does side by side without slowing them down"
    )
    memory_mb: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Memory of its host that runs may use together"
    )
    cpus: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="Processors, as memory_mb")
    gpus: int | None = Field(default=None, ge=0, le=10_000, description="GPUs, as memory_mb")
    loop_lag_seconds: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="How late its event loop woke, at worst, of late"
    )


class RunsSent(BaseModel):
    """Whether a worker of the pool should look for runs now."""

    sent: bool = Field(description="Flow runs were made for the pool while the answer was held")
