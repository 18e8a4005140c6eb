"""Download links that carry their own credential: signed, for one file, for minutes.

A link says who asked for it, and nothing of what they may: the rule is asked anew whenever it is used, so it ends with
the clearance, the approval or the client, whichever goes first. Sealed, so that it names nobody to whoever finds it.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

PARAMETER = "sig"  # the name by which logs know that it is a secret
_NOBODY = ""


@dataclass(frozen=True)
class SignedLink:
    """An address that needs no header, and when it ends."""

    href: str
    expires_at: datetime


class Links:
    """Signs and reads links. Without keys they are this process's own and end with it."""

    def __init__(self, keys: Sequence[str], seconds: int, clock: Callable[[], float] = time.time) -> None:
        try:
            self._seal = MultiFernet([Fernet(key) for key in keys or [Fernet.generate_key().decode()]])
        except ValueError:
            raise ValueError("CAIRN_LINK_KEYS holds something that is not 32 bytes of URL-safe base64.") from None
        self._seconds, self._clock = seconds, clock

    def link(self, base: str, path: str, version: int, client_id: str | None) -> SignedLink:
        """A link to one file of one version, for whoever this client is."""
        now = int(self._clock())
        said = "\n".join((path, str(version), client_id or _NOBODY))
        signature = self._seal.encrypt_at_time(said.encode(), now).decode()
        expires_at = datetime.fromtimestamp(now + self._seconds, UTC)
        return SignedLink(f"{base.rstrip('/')}{path}?version={version}&{PARAMETER}={signature}", expires_at)

    def asker(self, signature: str, path: str, version: str | None) -> str | None:
        """Return the client that a link was made for, empty for nobody in particular; None where it is not good."""
        try:
            said = self._seal.decrypt_at_time(signature.encode(), self._seconds, int(self._clock())).decode()
        except (InvalidToken, UnicodeError):
            return None
        signed_path, signed_version, client_id = said.split("\n")
        return client_id if (signed_path, signed_version) == (path, version) else None
