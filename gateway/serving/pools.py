"""How the libraries that speak asyncpg reach the database: as encrypted as its URL says, and logged in the same way.

asyncpg reads the URL otherwise than libpq, and a library of ours knows neither `sslmode` nor tokens. Told nothing, they
would speak in the clear to whoever answers.
"""

from typing import Any, Final
from urllib.parse import urlencode

from psycopg.conninfo import conninfo_to_dict

from domain.database_address import DatabaseAddress

_OF_TLS: Final = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl")


def pool_options(address: DatabaseAddress, most: int, **server_settings: str) -> dict[str, Any]:
    """For asyncpg's `create_pool`. A password that is asked for is asked for at each connection."""
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
        "server_settings": {"application_name": "cairn-serving", **server_settings},
    }
