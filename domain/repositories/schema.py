"""The database about itself: versions, tables, statements; and what a rebuild keeps."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import RowMapping, delete, insert, select, text, tuple_
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.schema import CreateIndex, CreateTable

from domain.db import MIGRATIONS
from domain.models import Base, Client, Platform

VERSIONS = text("""
    select (select version_num from app.alembic_version) as current,
        current_setting('server_version') as postgresql,
        (select extversion from pg_extension where extname = 'postgis') as postgis,
        (select version from pgstac.migrations order by datetime desc limit 1) as pgstac
""")
TABLES = text("""
    select c.relname as name, greatest(c.reltuples, 0)::bigint as rows_about,
        pg_total_relation_size(c.oid) as size_bytes
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'app' and c.relkind = 'r' order by c.relname
""")
KEPT = (Platform, Client)


async def versions(session: AsyncSession) -> dict[str, Any]:
    return dict((await session.execute(VERSIONS)).mappings().one())


async def tables(session: AsyncSession) -> Sequence[RowMapping]:
    return (await session.execute(TABLES)).mappings().all()


def head() -> str | None:
    """The schema that this code was written for."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(MIGRATIONS)).get_current_head()


def ddl() -> str:
    """The statements that make our tables, as the models have them."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    statements = []
    for table in Base.metadata.sorted_tables:
        statements.append(str(CreateTable(table).compile(dialect=dialect)).strip())
        statements += [
            str(CreateIndex(index).compile(dialect=dialect))
            for index in sorted(table.indexes, key=lambda made: str(made.name))
        ]
    return ";\n\n".join(statements) + ";\n"


async def clear_but_identities(session: AsyncSession) -> dict[str, list[dict[str, Any]]]:
    """Empty the catalogue; keep platforms and credentials: whoever rebuilds must still be known afterwards."""
    await session.execute(text("delete from pgstac.items"))
    await session.execute(text("delete from pgstac.collections"))
    return {
        model.__tablename__: [dict(row) for row in (await session.execute(select(model.__table__))).mappings()]
        for model in KEPT
    }


async def restore_identities(session: AsyncSession, kept: dict[str, list[dict[str, Any]]]) -> None:
    """As they were: platforms that migrations have seeded again keep what operators had changed of them."""
    for model in KEPT:
        if rows := kept[model.__tablename__]:
            await session.execute(delete(model).where(tuple_(*model.__table__.primary_key).in_(_keys(model, rows))))
            await session.execute(insert(model), rows)


def _keys(model: type[Base], rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row[column.name] for column in model.__table__.primary_key) for row in rows]
