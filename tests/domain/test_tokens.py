"""JWTs beside keys: verified by the issuer's published keys, believed for nothing but the client's name."""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from domain.shared.tokens import InvalidToken, KeySet, KeysUnavailable, fetcher
from tests.support.cluster import TestDatabase
from tests.support.issuer import AUDIENCE, EC, bad_tokens, published, running_issuer, token, trusting_settings
from tests.support.platform import Domain, running_domain
from tests.support.receiver import Received, Receiver, Reply


@pytest.fixture
async def issuer() -> AsyncIterator[Receiver]:
    async with running_issuer() as running:
        yield running


@pytest.fixture
async def domain(database: TestDatabase, tmp_path: Path, issuer: Receiver) -> AsyncIterator[Domain]:
    async with running_domain(database, tmp_path, **trusting_settings(issuer)) as running:
        yield running


async def knocks(domain: Domain, secret: str) -> int:
    async with httpx.AsyncClient(transport=domain.transport, base_url="http://domain") as client:
        return (await client.get("/api/v1/clients", headers={"Authorization": f"Bearer {secret}"})).status_code


async def test_good_token_opens_what_its_client_may_do(domain: Domain, issuer: Receiver) -> None:
    assert await knocks(domain, token()) == 200
    assert await knocks(domain, token(EC, "ES256", "ec", aud=["other", AUDIENCE])) == 200
    assert await knocks(domain, token(client_id="ddh-dev", role="admin", platform_id=None)) == 403
    assert await knocks(domain, "secret-operator") == 200  # keys go on working
    assert issuer.connections == 1
    domain.rows("update app.clients set is_active = false where client_id = 'operator' returning 1")
    assert await knocks(domain, token()) == 401


async def test_every_bad_token_is_turned_away(domain: Domain) -> None:
    bad = bad_tokens()
    answers = {name: await knocks(domain, secret) for name, secret in bad.items()}
    assert answers == dict.fromkeys(bad, 401)
    assert await knocks(domain, token()) == 200  # the control


async def test_keys_are_rotated_without_a_restart_and_asked_for_rarely(issuer: Receiver) -> None:
    now = 1000.0
    keys = KeySet(fetcher(issuer.url), clock=lambda: now)
    await keys.key("rsa")
    for _ in range(50):
        with pytest.raises(InvalidToken):
            await keys.key("new")
    assert issuer.connections == 1  # strangers' key ids make no storm
    issuer.reply = lambda _request: published("new")
    now += 11
    await keys.key("new")
    with pytest.raises(InvalidToken):
        await keys.key("rsa")  # withdrawn by its issuer
    issuer.reply = lambda _request: Reply(500)
    now += 400
    await keys.key("new")  # the issuer is down: what was known goes on for an hour
    now += 3600
    with pytest.raises(KeysUnavailable):
        await keys.key("new")


def _say(told: Reply, _request: Received) -> Reply:
    return told


async def test_key_without_an_id_is_used_only_where_it_is_alone(issuer: Receiver) -> None:
    named, other = (json.loads(published(kid).body)["keys"][0] for kid in ("rsa", "ec"))
    unnamed = [{name: value for name, value in key.items() if name != "kid"} for key in (named, other)]
    for keys, is_usable in ((unnamed[:1], True), (unnamed, False), ([unnamed[0], other], True)):
        told = Reply(200, body=json.dumps({"keys": keys}).encode())
        issuer.reply = partial(_say, told)
        known = KeySet(fetcher(issuer.url))
        if is_usable:
            assert (await known.key(None)).key_type == ("RSA" if len(keys) == 1 else "EC")
        with pytest.raises(InvalidToken):
            await known.key("another")
        if not is_usable:
            with pytest.raises(InvalidToken):
                await known.key(None)


async def test_an_issuer_that_never_answered_is_an_outage_not_a_wrong_key(domain: Domain, issuer: Receiver) -> None:
    issuer.reply = lambda _request: Reply(200, body=b"x" * 100_000)
    assert await knocks(domain, token()) == 503
    assert await knocks(domain, "secret-operator") == 200
