"""Workers as they announce themselves."""

from sqlalchemy import Double, Text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from domain.models.base import Base, CreatedAt


class PoolWorker(Base):
    """When a worker of a pool was last heard of. Old rows are swept away."""

    __tablename__ = "pool_workers"

    pool: Mapped[str] = mapped_column(primary_key=True)
    worker: Mapped[str] = mapped_column(primary_key=True)
    seen_at: Mapped[CreatedAt]
    at_once: Mapped[int | None]  # how many runs it does side by side; unknown where it does not say
    handlers: Mapped[list[str] | None] = mapped_column(ARRAY(Text))  # that it has; unknown where it does not say
    loop_lag_seconds: Mapped[float | None] = mapped_column(Double)
    memory_mb: Mapped[float | None] = mapped_column(Double)  # of its host, for runs; unknown where it does not say
    cpus: Mapped[float | None] = mapped_column(Double)
    gpus: Mapped[int | None]
