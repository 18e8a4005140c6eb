"""What all tables share: the schema, names of constraints, column types that recur."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from sqlalchemy import DateTime, MetaData, Text, Uuid, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, mapped_column
from sqlalchemy.types import TypeDecorator

SCHEMA = "app"
NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

Json = dict[str, Any]
CreatedAt = Annotated[datetime, mapped_column(DateTime(timezone=True), server_default=func.now())]
Moment = Annotated[datetime | None, mapped_column(DateTime(timezone=True))]


class Base(DeclarativeBase):
    """Root of all tables. Relationships are not mapped: repositories say what they load."""

    metadata = MetaData(schema=SCHEMA, naming_convention=NAMING)
    type_annotation_map = {str: Text, Json: JSONB, UUID: Uuid, datetime: DateTime(timezone=True)}  # noqa: RUF012


class EnumText(TypeDecorator[StrEnum]):
    """A string enum as text: readable in psql, extensible without ALTER TYPE."""

    impl = Text
    cache_ok = True

    def __init__(self, enum: type[StrEnum]) -> None:
        super().__init__()
        self.enum = enum

    def process_bind_param(self, value: Any, dialect: Any) -> str | None:
        return None if value is None else self.enum(value).value

    def process_result_value(self, value: Any, dialect: Any) -> StrEnum | None:
        return None if value is None else self.enum(value)


# What a lock reads counts: the session may hold the row as it was before the lock was waited for.
FRESH = {"populate_existing": True}
