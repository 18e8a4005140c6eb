"""Where a list goes on, as callers of the gateway name it."""

from domain.rules.paging import NoSuchPage, Position, from_token
from gateway.errors import InvalidQuery


def place_of(token: str | None) -> Position | None:
    """Return the place that a page's token names; without a token the list's beginning."""
    try:
        return None if token is None else from_token(token)
    except NoSuchPage as fault:
        raise InvalidQuery(str(fault)) from None
