"""Credentials as the domain makes them, and who may make whose."""

import base64
import secrets

from domain.doorkeeper import secret_hash
from domain.rules.callbacks import SECRET_PREFIX
from domain.rules.clearance import STAFF, Identity, Role

__all__ = ["KEY_PREFIX", "STAFF", "Identity", "Role", "may_manage", "new_callback_secret", "new_key", "secret_hash"]

KEY_PREFIX = "cairn_"


def new_callback_secret() -> str:
    """A secret to sign callbacks with, in the form that Standard Webhooks libraries take."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def new_key() -> str:
    """An API key. Its beginning lets people, scanners and our own log filter recognise one."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def may_manage(caller: Role, role: Role) -> bool:
    """Whether this caller may make and revoke credentials of that role: nobody makes one above their own."""
    return caller == "admin" or (caller == "operator" and role in {"partner", "reviewer"})
