"""A sign-in that waits for its provider, kept by the browser: sealed in a cookie, so that nobody's click is a row.

Only we can make such a cookie or read it, only the browser that began has it, and it ends after ten minutes. It could
be shown again until then, but the provider takes its code once.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from domain.adapters.sealing import keys_for

PENDING_SECONDS: Final = 600


@dataclass(frozen=True)
class PendingSignIn:
    """What the provider's answer is checked against, and where to go after the sign-in."""

    state: str
    nonce: str
    verifier: str
    return_address: str
    wanted: str = ""


class PendingSignIns:
    """Seals and opens pending sign-ins. Processes share the keys they are given; without keys each has its own."""

    def __init__(self, keys: Sequence[str]) -> None:
        from cryptography.fernet import Fernet, MultiFernet

        own = keys_for("console sign-in", keys) or [Fernet.generate_key().decode()]
        self._fernet = MultiFernet([Fernet(key) for key in own])

    def seal(self, pending: PendingSignIn) -> str:
        return self._fernet.encrypt(json.dumps(asdict(pending), ensure_ascii=False).encode()).decode()

    def opened(self, cookie: str) -> PendingSignIn | None:
        """Return the pending sign-in, or None where we did not seal it or did so too long ago."""
        from cryptography.fernet import InvalidToken

        try:
            return PendingSignIn(**json.loads(self._fernet.decrypt(cookie, ttl=PENDING_SECONDS)))
        except InvalidToken:
            return None
