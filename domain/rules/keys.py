"""Idempotency keys: what a client may choose, and what follows from the key of a batch. Pure.

A batch's mark names its key and everything in it, so its submissions' keys tell whether the key was of another batch.
Only lower case letters and digits follow what is reserved: such keys sort alike whatever the database's language.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from domain.rules.identity import fingerprint
from domain.rules.texts import unstorable_places

RESERVED: Final = "cairn-batch:"
MARK: Final = rf"^{RESERVED}[0-9a-f]{{128}}$"
_OF_THE_KEY: Final = len(RESERVED) + 64


def chosen(key: str) -> str:
    """Return a client's idempotency key, or raise ValueError that says why it cannot be one."""
    if key.startswith(RESERVED):
        raise ValueError(f"keys that begin with {RESERVED!r} are made by the platform; choose another")
    if [*unstorable_places(key)]:
        raise ValueError("a key holds no NUL and no half a letter")
    return key


def batch_mark(key: str, batch: Mapping[str, Any]) -> str:
    """Return the mark by which this batch under this key is recognised."""
    return f"{RESERVED}{sha256(key.encode()).hexdigest()}{fingerprint(batch)}"


def item_key(mark: str, index: int) -> str:
    """The key of the submission at this place of the batch."""
    return f"{mark}i{index}"


def common(mark: str) -> str:
    """Return the prefix that the marks of all batches under one key share."""
    return mark[:_OF_THE_KEY]
