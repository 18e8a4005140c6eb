"""URLs that let their holder read one blob for ten minutes (SAS). What is a URL here is a secret everywhere.

Whoever reads for longer asks again in time: five minutes are left of every URL that is given. What our own client
reads needs none, however long it takes.

They are signed by a key that Azure lends to our identity for some hours, or by the account's own where we hold it.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from flows.storage.account import Account

if TYPE_CHECKING:
    from azure.storage.blob import UserDelegationKey

SKEW_SECONDS: Final = 300  # our clock may be ahead of Azure's
LIFE_SECONDS: Final = 900 - SKEW_SECONDS
FRESH_SECONDS: Final = 300  # left at least of a URL that is given again
KEY_SECONDS: Final = 6 * 3600
REMEMBERED: Final = 4096


@dataclass
class SasUrls:
    """Signed URLs of one container's blobs, each given again while it is fresh: readers cache by URL."""

    account: Account
    container: str
    clock: Callable[[], float] = time.time
    _known: "OrderedDict[str, tuple[str, float]]" = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def known(self, blob: str) -> str | None:
        """Return an earlier URL that is good for another five minutes."""
        with self._lock:
            url, ends_at = self._known.get(blob, ("", 0.0))
        return url if ends_at - self.clock() > FRESH_SECONDS else None

    def sign(self, blob: str) -> str:
        """A new URL."""
        now = self.clock()
        ends_at = now + LIFE_SECONDS
        base = f"{self.account.client.url.rstrip('/')}/{self.container}/{quote(blob, safe='/')}"
        url = f"{base}?{self._query(blob, now - SKEW_SECONDS, ends_at)}"
        with self._lock:
            self._known[blob] = url, ends_at
            self._known.move_to_end(blob)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return url

    def forget(self, blob: str) -> None:
        """Forget the URL of a blob that is gone."""
        with self._lock:
            self._known.pop(blob, None)

    def _query(self, blob: str, starts_at: float, ends_at: float) -> str:
        from azure.storage.blob import BlobSasPermissions, generate_blob_sas

        own = self.account.key
        return generate_blob_sas(
            account_name=self.account.name,
            container_name=self.container,
            blob_name=blob,
            account_key=own,
            user_delegation_key=None if own else _lent_key_of(self.account).until(ends_at),
            permission=BlobSasPermissions(read=True),
            start=_moment(starts_at),
            expiry=_moment(ends_at),
            protocol="https" if _is_tls(self.account) else None,
        )


def _is_tls(account: Account) -> bool:
    """Whether URLs may say that they work over TLS only."""
    return str(account.client.url).startswith("https:")


@dataclass
class LentKey:
    """The key that Azure lends us to sign with, renewed before it ends."""

    account: Account
    clock: Callable[[], float] = time.time
    _key: "UserDelegationKey | None" = None
    _ends_at: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def until(self, moment: float) -> "UserDelegationKey":
        """Return a key that is good at least until then."""
        with self._lock:
            if self._key is None or self._ends_at < moment:
                now = self.clock()
                self._ends_at = now + KEY_SECONDS
                self._key = self.account.client.get_user_delegation_key(
                    _moment(now - SKEW_SECONDS), _moment(self._ends_at)
                )
            return self._key


@cache
def _lent_key_of(account: Account) -> LentKey:
    return LentKey(account)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=0)
