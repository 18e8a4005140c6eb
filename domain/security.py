"""What the service keeps of a credential, and who holds one."""

import base64
import hashlib
import secrets

from domain.rules.callbacks import SECRET_PREFIX
from domain.rules.clearance import STAFF, Identity, Role

__all__ = ["STAFF", "Identity", "Role", "new_callback_secret", "secret_hash"]


def secret_hash(secret: str) -> str:
    """What is stored of a credential. Secrets are 256 random bits: there is nothing to guess, so no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def new_callback_secret() -> str:
    """A secret to sign callbacks with, in the form that Standard Webhooks libraries take."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
