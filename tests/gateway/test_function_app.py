"""The gateway behind the adapter of Azure Functions: calls as the host makes them, started once, stopped in order."""

import asyncio
import importlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from azure import functions

from gateway import function_app
from gateway.forwarding.proxy_rules import ProxyTarget
from gateway.function_app import client_of
from gateway.settings import settings as configured
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, running_domain
from tests.support.receiver import Reply, running_receiver

BODY = {
    "dataset_id": "elevation",
    "resource_id": "dem",
    "version_id": "1",
    "data_type": "raster",
    "operation": "ingest",
    "source": "uploads/dem.tif",
}


class Host:
    """What the Functions host does: it finds the one function of the app and calls it with each request."""

    def __init__(self, app: functions.AsgiFunctionApp) -> None:
        self.app = app
        [self.function] = app.get_functions()

    async def call(
        self, method: str, path: str, body: Any = None, address: str = "203.0.113.7:4711", **headers: str
    ) -> functions.HttpResponse:
        sent = {"host": "cairn.azurewebsites.net", "x-forwarded-for": f"198.51.100.9, {address}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        content = b"" if body is None else json.dumps(body).encode()
        if content:
            sent |= {"content-type": "application/json", "content-length": str(len(content))}
        request = functions.HttpRequest(
            method=method, url=f"https://cairn.azurewebsites.net{path}", headers=sent, params={}, body=content
        )
        call: Any = self.function.get_user_function()
        answer: functions.HttpResponse = await call(request, None)
        return answer


@pytest.fixture
async def domain(database: TestDatabase, tmp_path: Path) -> AsyncIterator[Domain]:
    async with running_domain(database, tmp_path) as running:
        yield running


@pytest.fixture
async def host(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    settings = {
        "DATABASE_GATEWAY_URL": domain.database.url("cairn_gateway"),
        "DOMAIN_URL": "http://127.0.0.1:9",
        "SERVING_URL": "http://127.0.0.1:9",
        "SERVICE_TOKEN": "secret-gateway",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"CAIRN_{name}", value)
    configured.cache_clear()  # a host's process reads its settings, and imports the module, once
    running = Host(importlib.reload(function_app).app)
    yield running
    configured.cache_clear()
    await running.app.middleware.notify_shutdown()  # type: ignore[no-untyped-call]
    running.app.startup_task_done = False  # else it would stop once more when it is collected


def sessions(domain: Domain) -> int:
    """The gateway's connections to the database."""
    with psycopg.connect(domain.database.url()) as connection:
        query = "select count(*) from pg_stat_activity where usename = 'cairn_gateway' and datname = current_database()"
        found = connection.execute(query).fetchone()
    return int(found[0]) if found else 0


async def test_many_first_calls_start_one_gateway(host: Host, domain: Domain) -> None:
    assert sessions(domain) == 0  # importing opened nothing
    answers = await asyncio.gather(*(host.call("GET", "/readyz") for _ in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert json.loads(answers[0].get_body()) == {"status": "ready"}
    assert 1 <= sessions(domain) <= 8


async def test_calls_are_authenticated_as_at_the_gateway_itself(host: Host) -> None:
    unknown = await host.call("POST", "/api/platform/submit", BODY)
    nowhere = await host.call("GET", "/api/platform/status/00000000-0000-4000-8000-000000000000", x_api_key="wrong")
    faulty = await host.call("POST", "/api/platform/submit", BODY | {"colour": 1}, x_api_key="secret-ddh-dev")
    away = await host.call("POST", "/api/platform/submit", BODY, x_api_key="secret-ddh-dev")
    assert [answer.status_code for answer in (unknown, nowhere, faulty, away)] == [401, 401, 422, 503]
    assert faulty.mimetype == "application/problem+json"
    assert "'colour'" in json.loads(faulty.get_body())["detail"]


async def test_guesses_are_counted_by_the_address_that_the_host_saw(host: Host) -> None:
    path = "/api/platform/status/00000000-0000-4000-8000-000000000000"
    guesses = [await host.call("GET", path, x_api_key=f"wrong{number}") for number in range(60)]
    assert [answer.status_code for answer in guesses] == [401] * 50 + [429] * 10
    elsewhere = await host.call("GET", path, address="203.0.113.8:1", x_api_key="secret-ddh-dev")
    assert elsewhere.status_code == 404


async def test_a_submission_goes_all_the_way(host: Host, domain: Domain) -> None:
    assert (await host.call("GET", "/livez")).status_code == 200
    made = host.app.middleware._app._app.state  # the domain of this test listens at no socket
    http = httpx.AsyncClient(transport=domain.transport, base_url="http://domain")
    made.gateway = replace(made.gateway, domain=replace(made.gateway.domain, http=http))
    accepted = await host.call("POST", "/api/platform/submit", BODY, x_api_key="secret-ddh-dev")
    assert accepted.status_code == 202
    request_id = json.loads(accepted.get_body())["request_id"]
    assert accepted.headers["location"] == f"/api/platform/status/{request_id}"
    assert domain.rows("select request_id::text from app.requests") == [(request_id,)]


async def test_a_stream_without_end_is_refused_with_a_sentence(host: Host) -> None:
    answer = await host.call("GET", "/console/live/requests")
    told = json.loads(answer.get_body())
    assert (answer.status_code, told["code"]) == (501, "not-offered-here")
    assert "open the console where the gateway is a server" in told["detail"]


async def test_slow_call_ends_before_the_host_ends_the_worker(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await host.call("GET", "/livez")).status_code == 200
    monkeypatch.setattr(function_app, "LONGEST_SECONDS", 0.5)
    targets = host.app.middleware._app._app.state.gateway.settings.proxy_targets
    async with running_receiver() as slow:
        slow.reply = lambda _request: Reply(200, {}, b"done", delay_seconds=600)
        targets["slow"] = ProxyTarget.model_validate({"url": slow.url, "paths": ["*"]})
        late = await host.call("GET", "/api/proxy/slow/report", x_api_key="secret-operator")
        slow.reply = lambda _request: Reply(200, {}, b"done")
        monkeypatch.setattr(function_app, "LONGEST_SECONDS", 60)
        soon = await host.call("GET", "/api/proxy/slow/report", x_api_key="secret-operator")
    assert (late.status_code, json.loads(late.get_body())["code"]) == (503, "temporarily-unavailable")
    assert (soon.status_code, soon.get_body()) == (200, b"done")


def test_calls_end_well_before_the_hosts_own_limit() -> None:
    hours, minutes, seconds = json.loads(Path("gateway/host.json").read_text())["functionTimeout"].split(":")
    assert int(hours) * 3600 + int(minutes) * 60 + int(seconds) - 5 >= function_app.LONGEST_SECONDS


def test_host_configuration_leaves_paths_unchanged() -> None:
    written = json.loads(Path("gateway/host.json").read_text())
    assert written["version"] == "2.0"
    assert written["extensions"]["http"]["routePrefix"] == ""


@pytest.mark.parametrize(
    ("said", "address"),
    [
        (["203.0.113.7:4711"], "203.0.113.7"),
        (["203.0.113.7"], "203.0.113.7"),
        (["10.9.9.9, 203.0.113.7:1"], "203.0.113.7"),
        (["10.9.9.9", "203.0.113.7:1"], "203.0.113.7"),
        (["[2001:db8::1]:4711"], "2001:db8::1"),
        (["[2001:db8::1]"], "2001:db8::1"),
        (["2001:db8::1"], "2001:db8::1"),
        ([""], None),
        ([], None),
    ],
)
def test_address_of_a_caller_is_the_one_that_the_hosts_front_end_saw(said: list[str], address: str | None) -> None:
    found = client_of([(b"x-forwarded-for", value.encode()) for value in said])
    assert found == (None if address is None else (address, 0))
