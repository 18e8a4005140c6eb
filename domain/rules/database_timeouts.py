"""How soon a database that answers nothing is noticed, from either end, and which words say that it is away. Pure.

A server that fails without a word, as in a failover, closes no connection: unasked, the kernel waits for it for a
quarter of an hour. So it is asked after ten silent seconds and given up after 25, or 20 after it took what was sent.
The server does the same with a client that was cut off, whose locks others wait for.
"""

from collections.abc import Mapping
from typing import Any, Final

CONNECT_SECONDS: Final = 10
LIVELINESS: Final[Mapping[str, int]] = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # milliseconds
}
# A server may live and a process of it be stopped: then its kernel answers for it. So whoever asks counts, too.
IDLE_SECONDS: Final = 1.0  # after which a connection is asked whether it is there before it is used
PING_SECONDS: Final = 3.0  # for that answer, and for a service to find out whether it is ready
STATEMENT_SECONDS: Final = 60.0  # for a statement of the domain's, waits for locks included
READING_SECONDS: Final = 2.0  # for a statement of those that only read
LATE_SECONDS: Final = 3.0  # more than that, and the server that was to end the statement does not answer
SERVERS: Final = {
    "tcp_keepalives_idle": 10,
    "tcp_keepalives_interval": 5,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
# Classes and codes of PostgreSQL: the connection failed, something ran out (disk, memory, connections), the server
# stops, has crashed, or starts, or a replica stands where the primary should.
_AWAY: Final = ("08", "53", "57P01", "57P02", "57P03", "57P05", "58", "25006")


def liveness_options(said: Mapping[str, object]) -> dict[str, Any]:
    """Return the options that make a connection notice a dead server; the URL's own options win."""
    told = str(said.get("options", ""))
    servers = " ".join(f"-c {name}={value}" for name, value in SERVERS.items() if name not in told)
    ours = {name: value for name, value in LIVELINESS.items() if name not in said}
    return {**ours, "options": f"{told} {servers}".strip()}


def is_away(sqlstate: str | None) -> bool:
    """Whether an operational fault means that the server is away. One without a code comes from the connection."""
    return sqlstate is None or sqlstate.startswith(_AWAY)
