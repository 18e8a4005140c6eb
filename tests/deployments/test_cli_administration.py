"""`cairn clients` and `cairn callbacks` against a real domain: for people, and with --json for programs."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
import uvicorn
from click.testing import CliRunner, Result

from deployments.cli import cairn
from deployments.cli.clients import Stack
from deployments.stack.state import State
from domain.app import create_app
from tests.support.cluster import TestDatabase, free_port
from tests.support.platform import add_clients, domain_settings

Cairn = Callable[..., Result]


@pytest.fixture
def run(database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cairn]:
    """Runs the command as an operator of a domain that listens."""
    add_clients(database)
    port = free_port()
    app = create_app(domain_settings(database, tmp_path))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    facts = {"services": {"domain": {"url": f"http://127.0.0.1:{port}"}}}
    stack = Stack(State(tmp_path / "state"), facts, {"operator": {"token": "secret-operator"}})
    for module in ("callbacks", "credentials"):
        monkeypatch.setattr(f"deployments.cli.{module}.running_stack", lambda: stack)
    yield lambda *arguments: CliRunner().invoke(cairn, list(arguments))
    server.should_exit = True
    thread.join()


def test_credentials_are_made_rotated_and_revoked(run: Cairn) -> None:
    made = run("clients", "create", "geo-1", "--role", "partner", "--platform", "geonode")
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith("cairn_")
    assert made.stdout.count("\n") == 1  # the key alone: it can be piped
    rotated = json.loads(run("clients", "rotate", "geo-1", "--json").stdout)
    assert rotated["api_key"] != made.stdout.strip()
    assert run("clients", "callback-secret", "geo-1").stdout.startswith("whsec_")
    assert "geo-1" in run("clients", "list").stdout
    assert run("clients", "revoke", "geo-1").exit_code == 0
    listed = {row["client_id"]: row for row in json.loads(run("clients", "list", "--json").stdout)}
    assert listed["geo-1"]["is_active"] is False
    refused = run("clients", "create", "root", "--role", "admin")
    assert (refused.exit_code, "managed by admins" in refused.output) == (1, True)


def test_callbacks_are_listed_shown_and_replayed(run: Cairn, database: TestDatabase) -> None:
    request_id, callback_id = str(uuid4()), str(uuid4())
    with psycopg.connect(database.url()) as connection:
        connection.execute(
            "insert into app.requests (request_id, platform_id, client_id, operation, submitted, fingerprint, priority)"
            " values (%s, 'ddh', 'ddh-dev', 'ingest', '{}', 'f', 'normal')",
            [request_id],
        )
        connection.execute("insert into app.callback_endpoints (client_id, url) values ('ddh-dev', 'https://a.test/')")
        connection.execute(
            "insert into app.callbacks (callback_id, request_id, endpoint_id, status, state, tries)"
            " select %s, %s, endpoint_id, 'completed', 'failed', 10 from app.callback_endpoints",
            [callback_id, request_id],
        )
        connection.execute(
            "insert into app.callback_deliveries (callback_id, status_code, excerpt, duration_ms)"
            " values (%s, 500, 'out of order', 12)",
            [callback_id],
        )
    assert callback_id in run("callbacks", "list", "--state", "failed").stdout
    [row] = json.loads(run("callbacks", "list", "--request", request_id, "--json").stdout)["callbacks"]
    assert row["tries"] == 10
    assert "out of order" in run("callbacks", "show", callback_id).stdout
    replayed = json.loads(run("callbacks", "replay", callback_id, "--json").stdout)
    assert (replayed["state"], replayed["tries"]) == ("ready", 0)
    again = run("callbacks", "replay", callback_id)
    assert (again.exit_code, "on its way" in again.output) == (1, True)
    assert run("callbacks", "show", str(uuid4())).exit_code == 1
