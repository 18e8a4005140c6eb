"""The audit's chain: each seal covers one entry and the seal before it, so that no entry can change unseen. Pure."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

GENESIS = "0" * 64


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
class Verdict:
    """How far the chain holds. `fault` says what is wrong at `sequence`; without one, that is the chain's head."""

    sequence: int
    hash: str
    fault: str | None = None


def seal(previous: str, entry: Entry) -> str:
    """The hash that binds the entry to everything before it, whichever zone its time was read in."""
    at = entry.at.astimezone(UTC).isoformat()
    content = json.dumps({**asdict(entry), "at": at}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{previous}\n{content}".encode()).hexdigest()


def verify(seals: Iterable[Seal], head: Verdict = Verdict(0, GENESIS)) -> Verdict:
    """Follow the chain on from a verified head, up to its end or its first fault."""
    for link in seals:
        if fault := _fault(head, link):
            return Verdict(link.sequence, head.hash, fault)
        head = Verdict(link.sequence, link.hash)
    return head


def _fault(head: Verdict, link: Seal) -> str | None:
    if link.sequence != head.sequence + 1:
        return f"Seal {head.sequence + 1} is missing."
    if link.entry is None:
        return f"Entry {link.audit_id}, which seal {link.sequence} covers, is gone."
    if seal(head.hash, link.entry) != link.hash:
        return f"Entry {link.audit_id} or seal {link.sequence} was changed after it was sealed."
    return None
