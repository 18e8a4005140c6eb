"""Seals the secrets that we must be able to read again, so that a copy of the database alone reveals none.

A callback secret cannot be stored as a hash: signing needs it. With keys it is sealed by Fernet (AES-128-CBC and
HMAC-SHA-256), the first key seals and every key opens, so keys can be rotated. Without keys, which only development
allows, it is stored as it is, and sealed at the first start with one.
"""

import base64
import hmac
from collections.abc import Sequence

PLAIN = "plain:"
SEALED = "fernet:"


class CannotOpen(RuntimeError):
    """No key of this process opens this secret."""


class Vault:
    """Seals and opens secrets. It is made at start, so that a malformed key stops the service there."""

    def __init__(self, keys: Sequence[str]) -> None:
        from cryptography.fernet import Fernet, MultiFernet  # costs 30 ms to load: only where a vault is made

        try:
            self._fernet = MultiFernet([Fernet(key) for key in keys]) if keys else None
        except ValueError:
            raise ValueError("CAIRN_SECRETS_KEYS holds something that is not 32 bytes of URL-safe base64.") from None

    @property
    def seals(self) -> bool:
        """Whether there is a key."""
        return self._fernet is not None

    def seal(self, secret: str) -> str:
        if self._fernet is None:
            return PLAIN + secret
        return SEALED + self._fernet.encrypt(secret.encode()).decode()

    def open(self, sealed: str) -> str:
        from cryptography.fernet import InvalidToken

        if sealed.startswith(PLAIN):
            return sealed.removeprefix(PLAIN)
        try:
            if self._fernet is not None:
                return self._fernet.decrypt(sealed.removeprefix(SEALED)).decode()
        except InvalidToken:
            pass
        raise CannotOpen("A callback secret is sealed with a key that CAIRN_SECRETS_KEYS does not hold.")


def keys_for(purpose: str, keys: Sequence[str]) -> list[str]:
    """Fernet keys of one purpose, made from those that operators gave: what is sealed for one opens for no other."""
    made = (hmac.digest(key.encode(), purpose.encode(), "sha256") for key in keys)
    return [base64.urlsafe_b64encode(key).decode() for key in made]
