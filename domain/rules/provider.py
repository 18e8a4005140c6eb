"""What a provider of identities is believed for, and by which addresses it is spoken to. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from domain.contracts.clients import LONGEST_SUBJECT
from domain.rules.transport import is_plain_http


@dataclass(frozen=True)
class Vouched:
    """Somebody, as a provider names them. Names of people change hands there; this pair does not."""

    issuer: str
    subject: str


def is_subject(told: Any) -> bool:
    """Whether this can be a subject's name: such a text, and not one that hides something."""
    return isinstance(told, str) and 0 < len(told) <= LONGEST_SUBJECT and told.isprintable()


def faults_of_audience(claims: Mapping[str, Any], client_id: str) -> str | None:
    """Why a token was not made for us alone; that we are among its audience has been looked at.

    A token for several must say to whom it was handed out (`azp`), and that has to be us: any other of them could show
    it to us as its own.
    """
    audience = claims["aud"]
    others = set(audience if isinstance(audience, list) else [audience]) - {client_id}
    party = claims.get("azp")
    if party is None:
        return "made for several, and for none of them by name" if others else None
    return None if party == client_id else "handed out to another client"


def is_guarded(url: Any, development: bool) -> bool:
    """Whether nobody listens on the way to this address. In development it may lead to this machine itself by http."""
    if not isinstance(url, str):
        return False
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    if not host:
        return False
    if parts.scheme.lower() == "https":
        return True
    return development and parts.scheme.lower() == "http" and not is_plain_http(url)
