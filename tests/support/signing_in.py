"""At the console without a browser: cookies and forms by hand."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from tests.support.console import Assembly

SAME_ORIGIN = {"sec-fetch-site": "same-origin"}


@asynccontextmanager
async def at_the_console(assembly: Assembly, client_id: str | None) -> AsyncIterator[httpx.AsyncClient]:
    """Signed in as this local user, or not at all."""
    async with httpx.AsyncClient(base_url=assembly.url, headers=SAME_ORIGIN) as http:
        if client_id is not None:
            answer = await sign_in(http, client_id, f"secret-{client_id}")
            assert answer.status_code == 303, answer.text
        yield http


async def sign_in(http: httpx.AsyncClient, name: str, key: str) -> httpx.Response:
    return await http.post("/console/sign-in", data={"username": name, "password": key, "next": "/console/assets"})


async def form_token(http: httpx.AsyncClient) -> str:
    """The token of this session's forms, as a page has it."""
    found = re.search(r'name="form_token" value="([^"]+)"', (await http.get("/console/")).text)
    assert found
    return found[1]
