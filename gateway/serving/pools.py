"""How the libraries that speak asyncpg reach the database: as encrypted as its URL says, and logged in the same way.

asyncpg reads the URL otherwise than libpq, and a library of ours knows neither `sslmode` nor tokens. Told nothing, they
would speak in the clear to whoever answers.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlencode

import asyncpg
from psycopg.conninfo import conninfo_to_dict

from domain.rules.database_timeouts import CONNECT_SECONDS, LATE_SECONDS, SERVERS
from domain.shared.database_address import DatabaseAddress

STATEMENT_SECONDS: Final = 5.0
_OF_TLS: Final = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl")


def pool_options(address: DatabaseAddress, most: int, **server_settings: str) -> dict[str, Any]:
    """Return the options for asyncpg's `create_pool`; a requested password is requested at each connection."""
    target = {name: str(value) for name, value in conninfo_to_dict(address.url).items() if value is not None}
    tls = urlencode([(name, target[name]) for name in _OF_TLS if name in target])
    return {
        "dsn": f"postgresql:///?{tls}",  # the one way to name them; where it is, is told apart: addresses have colons
        "host": target["host"].split(","),
        "port": [int(port) for port in target.get("port", "5432").split(",")],
        "database": target["dbname"],
        "user": target["user"],
        "password": address.password or target.get("password"),
        "min_size": 1,
        "max_size": most,
        "timeout": CONNECT_SECONDS,
        "command_timeout": STATEMENT_SECONDS + LATE_SECONDS,
        "server_settings": {
            "application_name": "cairn-serving",
            **{name: str(value) for name, value in SERVERS.items()},
            "statement_timeout": str(round(1000 * STATEMENT_SECONDS)),
            "jit": "off",  # compiling takes longer than most of what is asked here
            **server_settings,
        },
    }


class Bounded(asyncpg.Pool):  # type: ignore[misc]  # asyncpg has no types
    """A pool whose connections are waited for, and given back, within a bounded time."""

    def acquire(self, *, timeout: float | None = None) -> Any:
        """Lend a connection, and close it where it is not given back in time."""
        return super().acquire(timeout=timeout or CONNECT_SECONDS)


def opened(options: dict[str, Any], init: Callable[[Any], Awaitable[None]]) -> Bounded:
    """Open a bounded pool like asyncpg's `create_pool`."""
    return Bounded(
        options["dsn"],
        **{name: value for name, value in options.items() if name != "dsn"},
        init=init,
        max_queries=50_000,
        max_inactive_connection_lifetime=300.0,
        loop=None,
        connection_class=asyncpg.Connection,
        record_class=asyncpg.Record,
    )
