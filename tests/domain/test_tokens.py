"""JWTs beside keys: verified by the issuer's published keys, believed for nothing but the client's name."""

import base64
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from domain.adapters.tokens import InvalidToken, IssuerUnavailable, KeySet
from tests.support.cluster import TestDatabase
from tests.support.platform import Domain, running_domain
from tests.support.receiver import Receiver, Reply, running_receiver

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
FOREIGN = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ISSUER, AUDIENCE = "https://issuer.test", "cairn"


def published(*kids: str) -> Reply:
    """The issuer's key set with these keys."""
    known = {"rsa": RSAAlgorithm.to_jwk(RSA.public_key()), "ec": ECAlgorithm.to_jwk(EC.public_key())}
    keys = [json.loads(known.get(kid, known["rsa"])) | {"kid": kid, "use": "sig"} for kid in kids]
    return Reply(200, {"content-type": "application/json"}, json.dumps({"keys": keys}).encode())


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    made = {"iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 600, "client_id": "operator"} | changes
    return {name: value for name, value in made.items() if value is not None}


def token(key: Any = RSA, algorithm: str = "RS256", kid: str = "rsa", **changes: Any) -> str:
    return jwt.encode(claims(**changes), key, algorithm=algorithm, headers={"kid": kid})


@pytest.fixture
async def issuer() -> AsyncIterator[Receiver]:
    async with running_receiver() as running:
        running.reply = lambda _request: published("rsa", "ec")
        yield running


@pytest.fixture
async def domain(database: TestDatabase, tmp_path: Path, issuer: Receiver) -> AsyncIterator[Domain]:
    configured = {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "jwt_jwks_url": issuer.url}
    async with running_domain(database, tmp_path, **configured) as running:
        yield running


async def knocks(domain: Domain, secret: str) -> int:
    async with httpx.AsyncClient(transport=domain.transport, base_url="http://domain") as client:
        return (await client.get("/api/v1/clients", headers={"Authorization": f"Bearer {secret}"})).status_code


async def test_good_tokens_open_what_their_client_may_do(domain: Domain, issuer: Receiver) -> None:
    assert await knocks(domain, token()) == 200
    assert await knocks(domain, token(EC, "ES256", "ec", aud=["other", AUDIENCE])) == 200
    assert await knocks(domain, token(client_id="ddh-dev", role="admin", platform_id=None)) == 403
    assert await knocks(domain, "secret-operator") == 200  # keys go on working
    assert issuer.connections == 1
    domain.rows("update app.clients set is_active = false where client_id = 'operator' returning 1")
    assert await knocks(domain, token()) == 401


async def test_every_bad_token_is_turned_away(domain: Domain) -> None:
    now = int(time.time())
    public = RSA.public_key()
    pem = json.dumps(RSAAlgorithm.to_jwk(public)).encode()
    header, body, signature = token().split(".")
    forged = base64.urlsafe_b64encode(json.dumps(claims(client_id="admin")).encode()).decode().rstrip("=")
    bad = {
        "none": jwt.encode(claims(), "", algorithm="none", headers={"kid": "rsa"}),
        "hmac with the public key": jwt.encode(claims(), pem, algorithm="HS256", headers={"kid": "rsa"}),
        "another key": token(FOREIGN),
        "the wrong kind of key": token(EC, "ES256", "rsa"),
        "a stronger algorithm": jwt.encode(claims(), RSA, algorithm="RS512", headers={"kid": "rsa"}),
        "unknown key id": token(kid="unknown"),
        "no key id": jwt.encode(claims(), RSA, algorithm="RS256"),
        "another audience": token(aud="other"),
        "no audience": token(aud=None),
        "another issuer": token(iss="https://evil.test"),
        "no issuer": token(iss=None),
        "expired": token(iat=now - 900, exp=now - 60),
        "no end": token(exp=None),
        "too long a life": token(exp=now + 86_400),
        "not yet": token(nbf=now + 300),
        "issued later": token(iat=now + 300),
        "no client": token(client_id=None),
        "a client that is none": token(client_id="nobody"),
        "a list of clients": token(client_id=["operator"]),
        "another body": f"{header}.{forged}.{signature}",
        "no signature": f"{header}.{body}.",
        "nonsense": "a.b.c",
        "too long": f"{header}.{'a' * 10_000}.{signature}",
    }
    answers = {name: await knocks(domain, secret) for name, secret in bad.items()}
    assert answers == dict.fromkeys(bad, 401)
    assert await knocks(domain, token()) == 200  # the control


async def test_keys_are_rotated_without_a_restart_and_asked_for_rarely(issuer: Receiver) -> None:
    now = 1000.0
    async with httpx.AsyncClient() as client:

        async def fetch() -> bytes:
            return (await client.get(issuer.url)).raise_for_status().content

        keys = KeySet(fetch, clock=lambda: now)
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
        with pytest.raises(IssuerUnavailable):
            await keys.key("new")


async def test_an_issuer_that_never_answered_is_an_outage_not_a_wrong_key(domain: Domain, issuer: Receiver) -> None:
    issuer.reply = lambda _request: Reply(200, body=b"x" * 100_000)
    assert await knocks(domain, token()) == 503
    assert await knocks(domain, "secret-operator") == 200
