"""The one table of ours in a foreign database: layers that an organisation shows elsewhere."""

import json
from typing import Any

import psycopg

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


class ExternalUnavailable(Exception):
    """The foreign database did not take it."""


async def put_layer(url: str, asset_id: str, content: dict[str, Any]) -> bool:
    """Write the layer; False where it stood there so already."""
    try:
        async with await psycopg.AsyncConnection.connect(
            url, connect_timeout=SECONDS, options=f"-c statement_timeout={SECONDS}s", application_name="cairn-domain"
        ) as connection:
            await connection.execute(TABLE)
            put = await connection.execute(PUT, [asset_id, content["title"], json.dumps(content)])
            return await put.fetchone() is not None
    except psycopg.Error as error:
        raise ExternalUnavailable(type(error).__name__) from error
