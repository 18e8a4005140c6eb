"""Alembic's door: which database, which tables."""

from alembic import context
from sqlalchemy import Connection, create_engine, text

from domain.models import Base
from domain.models.base import SCHEMA


def _ours(name: str | None, kind: str, _parents: object) -> bool:
    """Only schema `app` is migrated here; pgSTAC, PostGIS and views are not compared."""
    return name == SCHEMA if kind == "schema" else True


def _migrate(connection: Connection) -> None:
    connection.execute(text(f"create schema if not exists {SCHEMA}"))
    connection.commit()
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        version_table_schema=SCHEMA,
        include_schemas=True,
        include_name=_ours,
    )
    with context.begin_transaction():
        context.run_migrations()


engine = create_engine(context.config.attributes["url"])
try:
    with engine.connect() as opened:
        _migrate(opened)
finally:
    engine.dispose()
