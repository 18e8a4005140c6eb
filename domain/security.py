"""Who is calling: bearer tokens and API keys, looked up by hash."""

import hashlib
from dataclasses import dataclass
from typing import Literal

Role = Literal["partner", "reviewer", "operator", "worker", "gateway", "admin"]
STAFF: tuple[Role, ...] = ("reviewer", "operator", "admin")


@dataclass(frozen=True)
class Identity:
    """An authenticated caller."""

    client_id: str
    role: Role
    platform_id: str | None = None


def secret_hash(secret: str) -> str:
    """What is stored of a credential. Secrets are 256 random bits: there is nothing to guess, so no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()
