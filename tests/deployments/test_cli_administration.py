"""`cairn clients`, `callbacks`, `runs` and `submit` against real services: for people, and with --json for programs."""

import json
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
import uvicorn
from click.testing import CliRunner, Result
from fastapi import FastAPI
from pydantic import HttpUrl

from deployments.cli import cairn
from deployments.cli.clients import StackClients
from deployments.stack.ports import any_port
from deployments.stack.state import StackState
from domain.app import create_app
from gateway.app import create_app as create_gateway
from tests.support.cluster import TestDatabase
from tests.support.platform import add_clients, domain_settings, gateway_settings

Cairn = Callable[..., Result]


@pytest.fixture
def run(database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cairn]:
    """Runs the command as an operator or a partner of services that listen."""
    add_clients(database)
    domain, gateway = (f"http://127.0.0.1:{any_port()}" for _ in range(2))
    door = gateway_settings(database).model_copy(update={"domain_url": HttpUrl(domain)})
    facts = {"services": {"domain": {"url": domain}, "gateway": {"url": gateway}}}
    people = {role: {"token": f"secret-{role}"} for role in ("operator", "admin")}
    credentials = {**people, "clients": {"ddh": {"api_key": "secret-ddh-dev"}}}
    stack = StackClients(StackState(tmp_path / "state"), facts, credentials)
    stack.state.create()
    for module in ("assets", "callbacks", "credentials", "leftovers", "orders", "partner"):
        monkeypatch.setattr(f"deployments.cli.{module}.running_stack", lambda: stack)
    with served(create_app(domain_settings(database, tmp_path)), domain), served(create_gateway(door), gateway):
        yield lambda *arguments: CliRunner().invoke(cairn, list(arguments))


@contextmanager
def served(app: FastAPI, url: str) -> Iterator[None]:
    """The application, listening in a thread."""
    port = int(url.rpartition(":")[2])
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    yield
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
    refused = run("clients", "revoke", "admin")
    assert (refused.exit_code, "revoked by admins" in refused.output) == (1, True)


def test_client_that_decides_is_created_and_bound_by_an_administrator(run: Cairn) -> None:
    made = run("clients", "create", "rosa", "--role", "reviewer")
    assert made.stdout.startswith("cairn_"), made.output
    assert run("clients", "rotate", "rosa").stdout.startswith("cairn_")
    bound = run("clients", "bind", "rosa", "--issuer", "https://login.test", "--subject", "248289761001")
    assert bound.stdout == "rosa is 248289761001 of https://login.test.\n", bound.output
    refused = run("clients", "bind", "rosa", "--subject", "248289761001")  # no sign-in service is set up here
    assert (refused.exit_code, "invalid-client" in refused.output) == (1, True)
    assert json.loads(run("clients", "unbind", "rosa", "--json").stdout)["oidc_subject"] is None


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


def submitted(run: Cairn, folder: Path, resource_id: str, *options: str) -> Result:
    file = folder / f"{resource_id}.tif"
    file.write_bytes(resource_id.encode())
    refs = ("--ref", "dataset_id=elevation", "--ref", f"resource_id={resource_id}", "--ref", "version_id=1")
    return run("submit", str(file), *refs, "--no-wait", "--json", *options)


def test_file_is_submitted_with_its_priority_and_callback_url(
    run: Cairn, database: TestDatabase, tmp_path: Path
) -> None:
    assert run("clients", "callback-secret", "ddh-dev").exit_code == 0
    assert run("platforms", "set", "ddh", "--priority-cap", "high").exit_code == 0
    url = "https://partner.example.com/told"
    done = submitted(run, tmp_path, "a", "--priority", "high", "--callback-url", url)
    assert done.exit_code == 0, done.output
    assert submitted(run, tmp_path, "b").exit_code == 0
    with psycopg.connect(database.url()) as connection:
        kept = connection.execute("select priority, callback_url from app.requests order by created_at").fetchall()
    assert kept == [("high", url), ("normal", None)]
    assert submitted(run, tmp_path, "c", "--priority", "urgent").exit_code == 2


def test_runs_beyond_the_limit_are_listed_by_the_printed_command(run: Cairn, tmp_path: Path) -> None:
    for name in "abc":
        assert submitted(run, tmp_path, name).exit_code == 0
    assert "More:" not in run("runs").stdout
    seen, said = list[str](), "More: cairn runs --limit 2"
    while said:
        listed = run(*shlex.split(said.removeprefix("More: cairn "))).stdout
        seen += re.findall(r"^[0-9a-f-]{36}", listed, re.MULTILINE)
        said = "".join(line for line in listed.splitlines() if line.startswith("More:"))
    assert len(seen) == len(set(seen)) == 3


def test_leftovers_are_shown_and_strays_are_removed_by_order_alone(run: Cairn, tmp_path: Path) -> None:
    assert submitted(run, tmp_path, "a").exit_code == 0
    shown = run("leftovers")
    assert (shown.exit_code, "after 1 hours, all of a failed or cancelled one after 7 days" in shown.stdout) == (
        0,
        True,
    )
    assert json.loads(run("leftovers", "--json").stdout)["ended"] == []
    stray = tmp_path / f"runs/{uuid4()}/m1/values/v.json"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"{}")
    found = run("leftovers", "--files")
    assert (found.exit_code, "/m1/values/v.json (2 bytes): there is no such run" in found.stdout) == (1, True)
    assert run("leftovers", "--remove").exit_code == 2
    assert stray.exists()
    removed = run("leftovers", "--files", "--remove", "--json")
    told = json.loads(removed.stdout)
    assert (removed.exit_code, told["strays"], told["removed"], len(told["found"])) == (0, 1, 1, 1)
    assert not stray.exists()
