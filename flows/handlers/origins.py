"""Names a source for people: wherever the name is stored or shown, without secrets. Pure.

An address may carry its reader's rights: a user and password before the host, a signature behind the path. Only whoever
fetches it is given the whole of it.
"""

from urllib.parse import urlsplit

from domain.rules.sources import is_address


def shown(source: str) -> str:
    """Return a blob's name unchanged, or an address without user, password, query and fragment."""
    if not is_address(source):
        return source
    try:
        parts = urlsplit(source)
    except ValueError:
        return "an address"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else "an address"
