"""Workers as they announce themselves."""

from sqlalchemy import Double
from sqlalchemy.orm import Mapped, mapped_column

from domain.models.base import Base, CreatedAt


class PoolWorker(Base):
    """When a worker of a pool was last heard of. Old rows are swept away."""

    __tablename__ = "pool_workers"

    pool: Mapped[str] = mapped_column(primary_key=True)
    worker: Mapped[str] = mapped_column(primary_key=True)
    seen_at: Mapped[CreatedAt]
    loop_lag_seconds: Mapped[float | None] = mapped_column(Double)
