"""Secrets that callbacks are signed with: rotated, sealed, and nowhere readable; and addresses that may be told."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.fernet import Fernet
from pydantic import ValidationError
from standardwebhooks.webhooks import Webhook

from domain.adapters.sealing import Vault
from domain.app import create_app
from tests.domain.test_callbacks import QUICK, secret_of
from tests.support.cluster import TestDatabase
from tests.support.lives import completed, submitted
from tests.support.platform import Domain, another_domain, domain_settings, running_domain, submission
from tests.support.receiver import Receiver, running_receiver


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with running_receiver() as running:
        yield running


@pytest.fixture
async def domain(database: TestDatabase, tmp_path: Path) -> AsyncIterator[Domain]:
    async with running_domain(database, tmp_path, **QUICK) as running:
        yield running


async def test_both_secrets_verify_during_a_rotation(domain: Domain, receiver: Receiver) -> None:
    old, new = await secret_of(domain), await secret_of(domain)
    await completed(domain, await submitted(domain, callback_url=receiver.url))
    await receiver.wait_for(1)
    [message] = receiver.received
    assert len(message.headers["webhook-signature"].split()) == 2
    for secret in (old, new):
        assert Webhook(secret).verify(message.body, message.headers)
    domain.rows("update app.callback_secrets set retires_at = now() where retires_at is not null returning 1")
    refs = {"dataset_id": "elevation", "resource_id": "other"}
    await completed(domain, await submitted(domain, callback_url=receiver.url, refs=refs))
    await receiver.wait_for(2)
    assert len(receiver.received[1].headers["webhook-signature"].split()) == 1
    assert Webhook(new).verify(receiver.received[1].body, receiver.received[1].headers)


async def test_unusable_callback_address_is_refused_at_submission(database: TestDatabase, tmp_path: Path) -> None:
    async with running_domain(database, tmp_path) as strict, strict.as_("gateway") as gateway:
        answer = await gateway.post("/api/v1/submit", json=submission(callback_url="https://cairn.example.com/hook"))
        assert (answer.status_code, answer.json()["code"]) == (422, "callback-refused")
        assert "callback secret" in answer.json()["detail"]
        await secret_of(strict)
        for url, says in (
            ("http://example.com/", "https://"),
            ("https://169.254.169.254/", "not a public address"),
            ("https://example.com:22/", "443, 8443"),
            ("https://u:p@example.com/", "password"),
        ):
            answer = await gateway.post("/api/v1/submit", json=submission(callback_url=url))
            assert (answer.status_code, answer.json()["code"]) == (422, "callback-refused")
            assert says in answer.json()["detail"]
        assert strict.rows("select count(*) from app.requests") == [(0,)]


async def test_a_copy_of_the_database_reveals_no_sealed_secret(
    database: TestDatabase, tmp_path: Path, receiver: Receiver
) -> None:
    keys = [Fernet.generate_key().decode() for _ in range(2)]
    async with running_domain(database, tmp_path, **QUICK, secrets_keys=keys[1:]) as domain:
        secret = await secret_of(domain)
        [(sealed,)] = domain.rows("select sealed from app.callback_secrets")
        assert secret.removeprefix("whsec_") not in sealed
        request_id = await submitted(domain, callback_url=receiver.url)
    rotated = create_app(domain_settings(database, tmp_path, **QUICK, secrets_keys=keys))
    async with rotated.router.lifespan_context(rotated):
        await completed(Domain(httpx.ASGITransport(rotated), database, rotated.state.service), request_id)
        await receiver.wait_for(1)
    assert Webhook(secret).verify(receiver.received[0].body, receiver.received[0].headers)


async def test_secrets_that_were_stored_readable_are_sealed_at_the_first_start_with_a_key(
    database: TestDatabase, tmp_path: Path, receiver: Receiver
) -> None:
    none: dict[str, Any] = QUICK | {"development": True, "secrets_keys": ()}
    async with running_domain(database, tmp_path, **none) as domain:
        secret = await secret_of(domain)
        assert domain.rows("select sealed from app.callback_secrets") == [(f"plain:{secret}",)]
        request_id = await submitted(domain, callback_url=receiver.url)
    async with another_domain(database, tmp_path, **QUICK) as domain:
        [(sealed,)] = domain.rows("select sealed from app.callback_secrets")
        assert sealed.startswith("fernet:")
        await completed(domain, request_id)
        await receiver.wait_for(1)
    assert Webhook(secret).verify(receiver.received[0].body, receiver.received[0].headers)


def test_senseless_callback_settings_stop_the_service_at_start(database: TestDatabase, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="CAIRN_DEVELOPMENT"):
        domain_settings(database, tmp_path, callback_networks=["10.0.0.0/8"])
    with pytest.raises(ValueError, match="CAIRN_SECRETS_KEYS"):
        Vault(["too short"])
