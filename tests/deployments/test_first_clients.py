"""The clients that a deployment begins with: services as the environment says, an administrator once."""

import hashlib

import psycopg
import pytest

from deployments.stack.prepare import FIRST_CLIENTS, first_clients
from tests.support.cluster import TestDatabase


def clients(database: TestDatabase) -> dict[str, str]:
    with psycopg.connect(database.url()) as connection:
        return dict(connection.execute("select role, secret_hash from app.clients").fetchall())


def told(monkeypatch: pytest.MonkeyPatch, letter: str) -> dict[str, str]:
    """A secret for each, and what is stored of them."""
    made = {role: f"{role}-{letter * 40}" for role in FIRST_CLIENTS}
    for role, variable in FIRST_CLIENTS.items():
        monkeypatch.setenv(variable, made[role])
    return {role: hashlib.sha256(secret.encode()).hexdigest() for role, secret in made.items()}


def test_services_follow_the_environment_and_an_administrator_is_made_once(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = told(monkeypatch, "a")
    first_clients(database.url())
    assert clients(database) == first
    second = told(monkeypatch, "b")
    first_clients(database.url())
    assert clients(database) == {**second, "admin": first["admin"]}


def test_a_short_or_missing_secret_is_refused_by_its_name(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(monkeypatch, "a")
    monkeypatch.setenv("CAIRN_WORKER_TOKEN", "short")
    with pytest.raises(SystemExit, match="CAIRN_WORKER_TOKEN"):
        first_clients(database.url())
    assert clients(database) == {}
