"""When the domain could hear its workers."""

from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Mapped, mapped_column

from domain.models.base import Base


class ListeningSpan(Base):
    """A time in which one process of the domain took heartbeats. Old rows are swept away."""

    __tablename__ = "listening_spans"

    span_id: Mapped[UUID] = mapped_column(primary_key=True)
    since: Mapped[datetime]
    noted_at: Mapped[datetime]
