"""The one table of ours in a foreign database: layers that an organisation shows elsewhere."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from domain.shared.database_connection import SurelyClosed

SECONDS = 5
TABLE = """
create table if not exists cairn_layers (
    asset_id text primary key,
    title text not null,
    content jsonb not null,
    published_at timestamptz not null default now()
)
"""
PUT = """
insert into cairn_layers (asset_id, title, content) values (%s, %s, %s)
on conflict (asset_id) do update set title = excluded.title, content = excluded.content, published_at = now()
where cairn_layers.content is distinct from excluded.content
returning 1
"""
REMOVE = "delete from cairn_layers where asset_id = any(%s) returning asset_id"


class ForeignDatabaseFailed(Exception):
    """The foreign database did not take it."""


async def put_layer(url: str, asset_id: str, content: dict[str, Any]) -> bool:
    """Write the layer; False where it stood there so already."""
    async with _connection(url) as connection:
        await connection.execute(TABLE)
        put = await connection.execute(PUT, [asset_id, content["title"], json.dumps(content)])
        return await put.fetchone() is not None


async def standing(url: str) -> list[str]:
    """The assets whose layers stand there."""
    async with _connection(url) as connection:
        try:
            found = await connection.execute("select asset_id from cairn_layers order by asset_id")
        except psycopg.errors.UndefinedTable:  # nothing was ever published
            return []
        return [asset_id for (asset_id,) in await found.fetchall()]


async def remove(url: str, asset_ids: Sequence[str]) -> list[str]:
    """Take these layers out; returns the assets of those that stood there."""
    async with _connection(url) as connection:
        gone = await connection.execute(REMOVE, [list(asset_ids)])
        return [asset_id for (asset_id,) in await gone.fetchall()]


@asynccontextmanager
async def _connection(url: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """Committed at the end of the block."""
    try:
        async with await SurelyClosed.connect(
            url, connect_timeout=SECONDS, options=f"-c statement_timeout={SECONDS}s", application_name="cairn-domain"
        ) as connection:
            yield connection
    except psycopg.Error as error:
        raise ForeignDatabaseFailed(type(error).__name__) from error
