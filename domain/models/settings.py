"""What operators set while the service runs: pauses and limits."""

from typing import Any

from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from domain.models.base import Base, CreatedAt


class Setting(Base):
    """One pause or limit. `name` says what it is about: `*`, `workflow:…`, `platform:…` or `pool:…`."""

    __tablename__ = "settings"

    kind: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[Any] = mapped_column(JSONB)
    updated_by: Mapped[str]
    updated_at: Mapped[CreatedAt]
