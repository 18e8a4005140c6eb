"""The least that an accepted submission could cost: FastAPI, psycopg, one row, one commit."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel

INSERT = "insert into public.bench_rows (body) values (%s) returning id"


class Body(BaseModel):
    request_id: str
    source: str


def create_app() -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncConnectionPool(os.environ["BENCH_URL"], min_size=10, max_size=10) as pool:
            app.state.pool = pool
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/submit", status_code=202)
    async def submit(body: Body, request: Request) -> dict[str, Any]:
        async with request.app.state.pool.connection() as connection:
            row = await (await connection.execute(INSERT, [body.model_dump_json()])).fetchone()
        return {"id": row[0]}

    return app
