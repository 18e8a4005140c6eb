"""Outside development nothing starts that would speak in the clear to another machine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from deployments.stack.ports import PREFERRED
from deployments.stack.services import Layout, services
from deployments.stack.state import StackState
from domain.app import create_app
from domain.settings import DomainSettings
from flows.settings import LoaderSettings, WorkerSettings
from gateway.serving.settings import ServingSettings
from gateway.settings import GatewaySettings
from tests.support.cluster import TestDatabase
from tests.support.platform import domain_settings

SECURE = "?sslmode=verify-full"
DATABASE = f"postgresql://role:hidden@db.example/cairn{SECURE}"
Make = Callable[..., BaseModel]


def domain(**changes: Any) -> BaseModel:
    keys = {"secrets_keys": ["k" * 44], "audit_keys": ["k" * 44]}
    return DomainSettings(**{"database_url": DATABASE, "public_url": "https://cairn.example"} | keys | changes)


def gateway(**changes: Any) -> BaseModel:
    good = {
        "database_gateway_url": DATABASE,
        "domain_url": "https://domain.example",
        "serving_url": "https://serving.example",
        "service_token": "hidden",
    }
    return GatewaySettings(**good | changes)


def serving(**changes: Any) -> BaseModel:
    return ServingSettings(**{"database_serving_url": DATABASE} | changes)


def worker(**changes: Any) -> BaseModel:
    return WorkerSettings(**{"domain_url": "https://domain.example", "worker_token": "hidden"} | changes)


def loader(**changes: Any) -> BaseModel:
    return LoaderSettings(**{"database_loader_url": DATABASE} | changes)


INSECURE = [
    (domain, "database_url", DATABASE.removesuffix(SECURE)),
    (domain, "admin_url", DATABASE.removesuffix(SECURE)),
    (domain, "external_database_url", DATABASE.removesuffix(SECURE)),
    (domain, "public_url", "http://cairn.example"),
    (domain, "storage_account_url", "http://zones.example"),
    (gateway, "database_gateway_url", DATABASE.replace("verify-full", "prefer")),
    (gateway, "domain_url", "http://domain.example"),
    (gateway, "serving_url", "http://10.0.0.9:8002"),
    (serving, "database_serving_url", DATABASE.removesuffix(SECURE)),
    (worker, "domain_url", "http://domain.example"),
    (loader, "database_loader_url", DATABASE.removesuffix(SECURE)),
]


@pytest.mark.parametrize(("make", "name", "value"), INSECURE)
def test_plain_address_is_refused_by_setting_name_without_its_secrets(make: Make, name: str, value: str) -> None:
    assert make().model_fields_set
    with pytest.raises(ValidationError) as refusal:
        make(**{name: value})
    told = str(refusal.value)
    assert f"CAIRN_{name.upper()} leads to " in told
    assert "sslmode=verify-full" in told or "https://" in told
    assert "hidden" not in told


@pytest.mark.parametrize(("make", "name", "value"), INSECURE)
def test_plain_address_is_allowed_in_development_and_protected_networks(make: Make, name: str, value: str) -> None:
    assert make(**{name: value, "development": True}).model_fields_set
    hosts = ("db.example", "cairn.example", "zones.example", "domain.example", "10.0.0.9")
    assert make(**{name: value, "plaintext_hosts": hosts}).model_fields_set
    assert make(**{name: value, "plaintext_hosts": tuple(host.upper() for host in hosts)}).model_fields_set


def test_issuer_keys_are_not_fetched_over_plain_http() -> None:
    issuer = {"jwt_issuer": "https://login.example", "jwt_audience": "cairn"}
    assert "jwt_jwks_url" in gateway(**issuer, jwt_jwks_url="https://login.example/keys").model_fields_set
    with pytest.raises(ValidationError, match=r"CAIRN_JWT_JWKS_URL leads to login\.example without TLS"):
        gateway(**issuer, jwt_jwks_url="http://login.example/keys")


def test_relay_refuses_a_plain_http_prefect(
    database: TestDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect.example/api")
    create_app(domain_settings(database, tmp_path))  # one that dispatches nothing does not speak to it
    with pytest.raises(ValueError, match=r"PREFECT_API_URL leads to prefect\.example without TLS"):
        create_app(domain_settings(database, tmp_path, relay_enabled=True))


def test_embedded_stack_runs_in_development(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own addresses are all loopback; a database of a developer's own may be anywhere."""
    monkeypatch.setenv("CAIRN_DEVELOPMENT", "false")
    state = StackState(tmp_path)
    state.create()
    layout = Layout(state, dict(PREFERRED), "postgresql://admin:hidden@db.example/postgres")
    started = {service.name: service.environment for service in services(layout)}
    for name in ("domain", "gateway", "serving", "worker-light"):
        assert started[name]["CAIRN_DEVELOPMENT"] == "true"
