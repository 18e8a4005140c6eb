"""What partners may have done, as it is offered by the image that started last."""

from typing import Any

from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from domain.models.base import Base


class Process(Base):
    """One kind of submission. `inputs` is a list, for their order: each with name, required and JSON Schema."""

    __tablename__ = "processes"

    process_id: Mapped[str] = mapped_column(primary_key=True)
    data_type: Mapped[str]
    operation: Mapped[str]
    title: Mapped[str]
    description: Mapped[str]
    version: Mapped[str]
    inputs: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
