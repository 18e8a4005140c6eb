"""How a source is called wherever its name is kept or shown. Pure.

An address may carry its reader's rights: a user and password before the host, a signature behind the path. Only whoever
fetches it is given the whole of it.
"""

from urllib.parse import urlsplit

from domain.rules.sources import is_address


def shown(source: str) -> str:
    """The blob's name as it is; an address without user, password, query and fragment."""
    if not is_address(source):
        return source
    try:
        parts = urlsplit(source)
    except ValueError:
        return "an address"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else "an address"
