"""Credentials as the domain makes them, and who may make whose."""

import base64
import secrets
from collections.abc import Collection

from domain.rules.callbacks import SECRET_PREFIX
from domain.rules.clearance import REVIEW_SCOPE, STAFF, Identity, Role
from domain.shared.authentication import secret_hash

__all__ = [
    "KEY_PREFIX",
    "STAFF",
    "Identity",
    "Role",
    "may_hand_out",
    "may_take_away",
    "new_callback_secret",
    "new_key",
    "secret_hash",
    "shown_part",
]

KEY_PREFIX = "cairn_"
SHOWN_DIGITS = 8


def new_callback_secret() -> str:
    """A secret to sign callbacks with, in the form that Standard Webhooks libraries take."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def new_key() -> str:
    """An API key: what lets people, scanners and our own log filter recognise it, a dot, and the secret."""
    return f"{KEY_PREFIX}{secrets.token_hex(SHOWN_DIGITS // 2)}.{secrets.token_urlsafe(32)}"


def shown_part(key: str) -> str:
    """What may be shown of a key, so that people can tell which one it is."""
    return key.partition(".")[0]


def may_hand_out(caller: Role, role: Role, scopes: Collection[str] = ()) -> bool:
    """Whether this caller may create, renew or bind such a credential: whoever does so holds it for a moment.

    An operator hands out none that decides: with two of them, one person would be the quorum that a platform asks for.
    """
    return caller == "admin" or (caller == "operator" and role == "partner" and REVIEW_SCOPE not in scopes)


def may_take_away(caller: Role, role: Role) -> bool:
    """Whether this caller may revoke such a credential: operators may, since nobody can decide with a revoked one."""
    return caller == "admin" or (caller == "operator" and role in {"partner", "reviewer"})
