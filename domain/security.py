"""What the service keeps of a credential, and who holds one."""

import hashlib

from domain.rules.clearance import STAFF, Identity, Role

__all__ = ["STAFF", "Identity", "Role", "secret_hash"]


def secret_hash(secret: str) -> str:
    """What is stored of a credential. Secrets are 256 random bits: there is nothing to guess, so no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()
