"""What a provider of identities is believed for, and by which addresses it is spoken to. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from domain.contracts.clients import LONGEST_SUBJECT
from domain.rules.transport import is_plain_http


@dataclass(frozen=True)
class Vouched:
    """A person as a provider identifies them: by issuer and subject, since a person's name may pass to another."""

    issuer: str
    subject: str


def is_subject(told: Any) -> bool:
    """Whether this text can be a subject's name and hides no character."""
    return isinstance(told, str) and 0 < len(told) <= LONGEST_SUBJECT and told.isprintable()


def faults_of_audience(claims: Mapping[str, Any], client_id: str) -> str | None:
    """Return why a token was not made for us alone. The caller has checked that we are in its audience.

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
    """Whether nobody can listen on the way to this address. Development allows http to this machine itself."""
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
