"""Clients that many callers share keep no cookies: one caller's would be sent along with the calls of all others."""

from http.cookiejar import CookieJar, DefaultCookiePolicy


def no_cookies() -> CookieJar:
    """A jar that refuses every cookie."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=()))
