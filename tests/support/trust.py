"""One TLS context for all HTTP clients of the tests: each would read the system's certificates anew, 15 ms a client."""

import os
import ssl
from collections.abc import Callable
from typing import Any

Make = Callable[..., ssl.SSLContext]
_PLACES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def remembering(make: Make) -> Make:
    """The same context for who asks for the usual one; who brings certificates gets one of its own."""
    made: dict[tuple[Any, ...], ssl.SSLContext] = {}

    def context(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        if verify is not True or cert is not None:
            return make(verify=verify, cert=cert, trust_env=trust_env)
        key = (trust_env, *(os.environ.get(name) for name in _PLACES))
        if key not in made:
            made[key] = make(trust_env=trust_env)
        return made[key]

    return context
