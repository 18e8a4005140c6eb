"""Every route, called by every role: those of its audience get in, everybody else is turned away."""

import re
from pathlib import Path
from uuid import uuid4

import httpx
from fastapi import FastAPI

from domain.app import create_app
from tests.domain.audiences import AUDIENCES, DECISIONS, EVERYBODY, OPEN
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, domain_settings

CLIENT_OF = {role: role for role in EVERYBODY} | {"partner": "ddh-dev"}


def declared_routes(database: TestDatabase, folder: Path) -> set[tuple[str, str]]:
    app = create_app(domain_settings(database, folder))
    return {
        (method, context.path)
        for route in app.routes
        if route is not _console(app)
        for context in _leaves(route)
        for method in context.methods
        if method != "HEAD"
    }


def _console(app: FastAPI) -> object:
    """The console's own application: its tests ask each of its routes."""
    return next(route for route in app.routes if getattr(route, "path", "") == "/console")


class _Leaf:
    def __init__(self, path: str, methods: set[str]) -> None:
        self.path = path
        self.methods = methods


def _leaves(route: object) -> list[_Leaf]:
    """A route, or those that it includes."""
    contexts = getattr(route, "effective_route_contexts", None)
    if contexts is None:
        return [_Leaf(getattr(route, "path", str(route)), set(getattr(route, "methods", None) or {"ANY"}))]
    return [_Leaf(context.path, set(context.methods or {"ANY"})) for context in contexts()]


def test_every_route_has_a_declared_audience(database: TestDatabase, tmp_path: Path) -> None:
    assert declared_routes(database, tmp_path) == set(AUDIENCES)


async def test_nobody_gets_in_without_a_credential_or_with_a_foreign_one(domain: Domain) -> None:
    app = domain.transport.app  # type: ignore[attr-defined]
    for number, ((method, path), audience) in enumerate(AUDIENCES.items()):
        if audience == OPEN:
            continue
        elsewhere = httpx.ASGITransport(app, client=(f"10.0.0.{number}", 1))  # guessers of one address have to wait
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"X-API-Key": "cairn_wrong"}):
            async with httpx.AsyncClient(transport=elsewhere, base_url="http://domain") as nobody:
                answer = await nobody.request(method, _filled(path), json={}, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), (method, path)


async def test_every_role_reaches_its_own_routes_and_no_others(domain: Domain) -> None:
    for role in sorted(EVERYBODY):
        async with domain.as_(CLIENT_OF[role]) as caller:
            for (method, path), audience in AUDIENCES.items():
                let_in, told = await _knock(caller, method, path)
                assert let_in == (audience == OPEN or role in audience), (role, method, path, told)


async def test_partner_client_with_review_scope_decides_and_nothing_else(domain: Domain) -> None:
    domain.rows("update app.clients set scopes = '{review}' where client_id = 'ddh-dev' returning 1")
    async with domain.as_("ddh-dev") as named:
        for (method, path), audience in AUDIENCES.items():
            let_in, told = await _knock(named, method, path)
            assert let_in == (audience == OPEN or (method, path) in DECISIONS), (method, path, told)


async def _knock(caller: httpx.AsyncClient, method: str, path: str) -> tuple[bool, str]:
    """Whether the caller gets past the door, and what it is told."""
    answer = await caller.request(method, _filled(path), json={})
    turned_away = answer.status_code in {401, 403} and answer.json()["code"] != "development-only"
    return not turned_away, answer.text


def _filled(path: str) -> str:
    """The path with an id of the right kind in every place."""
    values = {"ordinal": "0", "asset_id": "0" * 32}
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], str(uuid4())), path)
