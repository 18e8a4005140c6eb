"""The audit's chain: each seal covers one entry and the seal before it, so that no entry can change unseen. Pure.

Seals are made with a key that the database does not hold: without it nobody who writes there can remake the chain. A
seal says with which key: its text is the key's name, a colon and the HMAC. Those made before there were keys, and in
development, are plain hashes.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

GENESIS: Final = "0" * 64
SHORTEST_KEY: Final = 32
NAME_DIGITS: Final = 16
SEAL_TEXT: Final = rf"^([0-9a-f]{{{NAME_DIGITS}}}:)?[0-9a-f]{{64}}$"


@dataclass(frozen=True)
class Entry:
    """One act: who did what to which thing, and when."""

    audit_id: int
    at: datetime
    actor: str
    role: str
    action: str
    subject: str
    details: dict[str, Any]


@dataclass(frozen=True)
class Seal:
    """One link of the chain. `entry` is None where the entry it was made for is gone."""

    sequence: int
    audit_id: int
    hash: str
    entry: Entry | None


@dataclass(frozen=True)
class ChainState:
    """How far the chain holds. `fault` says what is wrong at `sequence`; without one, that is the chain's head."""

    sequence: int
    hash: str
    fault: str | None = None


@dataclass(frozen=True)
class SealKey:
    """A key and the name that seals call it by. The name reveals nothing of the key."""

    name: str
    secret: bytes

    @classmethod
    def of(cls, secret: str) -> "SealKey":
        if len(secret) < SHORTEST_KEY:
            raise ValueError(f"A key of CAIRN_AUDIT_KEYS has fewer than {SHORTEST_KEY} characters.")
        name = hashlib.sha256(f"name of audit key {secret}".encode()).hexdigest()[:NAME_DIGITS]
        return cls(name, secret.encode())

    def __repr__(self) -> str:
        return f"SealKey({self.name})"


@dataclass(frozen=True)
class Chain:
    """How seals are made and verified: the first key makes them, every key verifies its own.

    Seals without a key are believed up to a number that is known outside the database; None believes all of them.
    """

    keys: tuple[SealKey, ...] = ()
    without_key: int | None = None

    @property
    def key_name(self) -> str | None:
        """The key that seals now."""
        return self.keys[0].name if self.keys else None

    def seal(self, previous: str, entry: Entry) -> str:
        """The text that binds the entry to everything before it."""
        return _sealed_text(previous, entry, self.keys[0] if self.keys else None)

    def verify(self, seals: Iterable[Seal], head: ChainState = ChainState(0, GENESIS)) -> ChainState:
        """Follow the chain on from a verified head, up to its end or its first fault."""
        for link in seals:
            if fault := self._fault(head, link):
                return ChainState(link.sequence, head.hash, fault)
            head = ChainState(link.sequence, link.hash)
        return head

    def _fault(self, head: ChainState, link: Seal) -> str | None:
        if link.sequence != head.sequence + 1:
            return f"Seal {head.sequence + 1} is missing."
        if link.entry is None:
            return f"Entry {link.audit_id}, which seal {link.sequence} covers, is gone."
        name = key_name(link.hash)
        if name is None and self.without_key is not None and link.sequence > self.without_key:
            return (
                f"Seal {link.sequence} was made without a key, as anybody can who writes to the database. Where that "
                f"was before there were keys, say in CAIRN_AUDIT_SEALS_WITHOUT_KEY how many such seals there are."
            )
        key = next((key for key in self.keys if key.name == name), None)
        if name is not None and key is None:
            return f"Seal {link.sequence} was made with key {name}, which CAIRN_AUDIT_KEYS does not hold."
        if not hmac.compare_digest(_sealed_text(head.hash, link.entry, key), link.hash):
            return f"Entry {link.audit_id} or seal {link.sequence} was changed after it was sealed."
        return None


def key_name(seal: str) -> str | None:
    """Return the name of the key that the seal says it was made with; None for a keyless seal."""
    return seal.partition(":")[0] if ":" in seal else None


def _sealed_text(previous: str, entry: Entry, key: SealKey | None) -> str:
    """Return the text that a seal covers, whichever zone the entry's time was read in."""
    at = entry.at.astimezone(UTC).isoformat()
    content = json.dumps({**asdict(entry), "at": at}, sort_keys=True, separators=(",", ":"))
    covered = f"{previous}\n{content}".encode()
    if key is None:
        return hashlib.sha256(covered).hexdigest()
    return f"{key.name}:{hmac.new(key.secret, covered, hashlib.sha256).hexdigest()}"
