"""A token issuer of tests: its keys, good tokens, and every kind of bad one."""

import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

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


def bad_tokens() -> dict[str, str]:
    """Each with one thing wrong, by its name."""
    now = int(time.time())
    public = RSA.public_key()
    pem = json.dumps(RSAAlgorithm.to_jwk(public)).encode()
    header, body, signature = token().split(".")
    forged = base64.urlsafe_b64encode(json.dumps(claims(client_id="admin")).encode()).decode().rstrip("=")
    return {
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


@asynccontextmanager
async def running_issuer() -> AsyncIterator[Receiver]:
    """An issuer that publishes its keys."""
    async with running_receiver() as running:
        running.reply = lambda _request: published("rsa", "ec")
        yield running


def trusting_settings(issuer: Receiver) -> dict[str, str]:
    """What makes a service believe this issuer."""
    return {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "jwt_jwks_url": issuer.url}
