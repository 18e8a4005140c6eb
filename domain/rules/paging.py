"""Places in a list that is read page by page: newest first, and stable while it grows. Pure."""

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

MAX_PAGE = 500
LOOK = 5_000  # entries that one page looks at, at most: what it finds among them is shown


class NoSuchPage(ValueError):
    """This text is no place in a list."""


@dataclass(frozen=True)
class Position:
    """The last entry that was shown: the next page begins after it."""

    at: datetime
    id: UUID

    @property
    def sorted(self) -> tuple[datetime, UUID]:
        return self.at, self.id


def to_token(place: Position) -> str:
    """The place as an opaque word for a URL."""
    text = json.dumps([place.at.isoformat(), place.id.hex])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def from_token(token: str) -> Position:
    """The place that `to_token` named; anything else is refused."""
    try:
        at, identity = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        place = Position(datetime.fromisoformat(at), UUID(identity))
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError):
        raise NoSuchPage("This page token is not one of ours. Take `next` from the page before.") from None
    if place.at.tzinfo is None:
        raise NoSuchPage("This page token is not one of ours. Take `next` from the page before.")
    return place
