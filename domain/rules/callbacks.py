"""Callbacks: what they say, how they are signed (Standard Webhooks 1.0), and when they are tried again. Pure."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

MAX_BODY_BYTES = 20_000
MAX_DETAIL = 1000
MAX_RETRY_AFTER_SECONDS = 24 * 3600.0
JITTER = 0.1
SECRET_PREFIX = "whsec_"  # noqa: S105 - the public prefix of every such secret
GONE = 410


class CallbackState(StrEnum):
    READY = "ready"
    SENDING = "sending"
    DELIVERED = "delivered"
    FAILED = "failed"
    DISABLED = "disabled"


@dataclass(frozen=True)
class Delivered:
    """The receiver has it."""


@dataclass(frozen=True)
class Again:
    """Try once more after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class GivenUp:
    """The schedule is exhausted: only a replay sends it again."""


@dataclass(frozen=True)
class Gone:
    """The receiver wants no more callbacks at this address."""


Verdict = Delivered | Again | GivenUp | Gone


def judge(
    status: int | None, tries: int, delays: Sequence[float], retry_after_seconds: float | None, chance: float
) -> Verdict:
    """What follows from one try. `status` is None where no answer came; `tries` counts this one; 0 <= chance < 1.

    Only 2xx is a delivery: a redirect is a failure, because nobody judged the address that it names.
    """
    if status is not None and 200 <= status < 300:
        return Delivered()
    if status == GONE:
        return Gone()
    if tries > len(delays):
        return GivenUp()
    wait = delays[tries - 1] * (1 + JITTER * chance)
    return Again(max(wait, min(retry_after_seconds or 0.0, MAX_RETRY_AFTER_SECONDS)))


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Read the header as seconds or as a date; any other text gives None."""
    if header is None:
        return None
    if header.strip().isdecimal() and len(header) < 10:
        return float(header)
    try:
        at = parsedate_to_datetime(header)
        return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds())
    except (ValueError, ArithmeticError, LookupError, TypeError):  # a zone beyond all numbers overflows
        return None


def body(request_id: UUID, status: str, result_url: str, problem: Mapping[str, Any] | None) -> bytes:
    """Return the callback's body, the same at every try. A problem beyond the standard's 20 kB is left out."""
    content: dict[str, Any] = {"request_id": str(request_id), "status": status, "result_url": result_url}
    if problem is not None:
        content["problem"] = {name: problem[name] for name in ("type", "title", "status", "code") if name in problem}
        content["problem"]["detail"] = str(problem.get("detail", ""))[:MAX_DETAIL]
    said = _bytes(content)
    return said if len(said) < MAX_BODY_BYTES else _bytes({**content, "problem": None})


def _bytes(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def webhook_id(callback_id: UUID) -> str:
    """Return the message's id, the same at every try, so that receivers recognise a repetition."""
    return f"msg_{callback_id.hex}"


def signature(secrets: Iterable[str], message_id: str, timestamp: int, content: bytes) -> str:
    """Return one signature for each live secret, so that either verifies during a rotation."""
    signed = b".".join([message_id.encode(), str(timestamp).encode(), content])
    return " ".join(f"v1,{_mac(secret, signed)}" for secret in secrets)


def _mac(secret: str, signed: bytes) -> str:
    digest = hmac.new(secret_bytes(secret), signed, hashlib.sha256).digest()
    return base64.b64encode(digest).decode()


def secret_bytes(secret: str) -> bytes:
    """The key inside `whsec_…`."""
    try:
        return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("A callback secret is whsec_ and base64.") from None
