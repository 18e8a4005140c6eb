"""The HTTP clients of doors that forward. Many callers share one: it keeps no cookies, and little of each answer."""

import socket
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx

# What the client has been sent it takes into its memory whole, before anybody reads it. Left to the kernel, that
# becomes megabytes for each answer whose reader is slow. The kernel doubles what is asked for.
HELD_BYTES: Final = 128 * 1024
_SMALL_WINDOW: Final = [(socket.SOL_SOCKET, socket.SO_RCVBUF, HELD_BYTES)]


def forwarding_client(
    base_url: str = "", *, timeout_seconds: float = 5.0, most_connections: int | None = None, trust_env: bool = True
) -> httpx.AsyncClient:
    """Make a client that passes answers on no faster than they are read."""
    limits = httpx.Limits(max_connections=most_connections)
    transport = httpx.AsyncHTTPTransport(limits=limits, socket_options=_SMALL_WINDOW, trust_env=trust_env)
    return httpx.AsyncClient(
        base_url=base_url,
        timeout=timeout_seconds,
        transport=transport,
        trust_env=trust_env,
        follow_redirects=False,
        cookies=_no_cookies(),
    )


def _no_cookies() -> CookieJar:
    """A jar that refuses every cookie: one caller's would be sent along with the calls of all others."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=()))
