"""What may pass between an operator and an internal service: paths and headers. Pure; knows no HTTP client."""

import re
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field, HttpUrl, SecretStr, field_validator

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
HOP_BY_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
        "trailers", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
# What callers show us, or what only parts of the platform may tell each other.
OURS = frozenset({"authorization", "x-api-key", "cookie", "forwarded", "x-platform-id", "x-real-ip", "via"})
OUR_FAMILIES = ("x-internal-", "x-forwarded-")
# Made anew for the connection that is ours, or telling of what is inside.
MADE_ANEW = frozenset({"host", "content-length", "expect"})
INSIDE_ONLY = frozenset({"server", "set-cookie", "location", "www-authenticate", "x-powered-by"})
CLEAN_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@-]+(/[A-Za-z0-9._~!$&'()*+,;=:@-]+)*")


class ProxyTarget(BaseModel):
    """An internal service that operators may reach, and how far."""

    model_config = ConfigDict(extra="forbid")

    url: HttpUrl
    paths: list[str] = Field(min_length=1, description="`*` is one segment of a path, `**` all that follow")
    methods: list[str] = Field(default_factory=lambda: ["GET"], min_length=1)
    authorization: SecretStr | None = Field(default=None, description="The header that the target is shown")
    health: str | None = Field(default=None, description="The path that answers 200 while the target is well")
    timeout_seconds: float = Field(default=30.0, gt=0, le=300)

    @field_validator("methods")
    @classmethod
    def _known(cls, given: list[str]) -> list[str]:
        if strange := [name for name in given if name not in METHODS]:
            raise ValueError(f"{strange[0]} is not one of {', '.join(sorted(METHODS))}")
        return given


def is_clean(path: str) -> bool:
    """Whether a path means the same to everybody: no empty, hidden or encoded segments. It was decoded once."""
    return CLEAN_PATH.fullmatch(path) is not None and not {".", ".."} & set(path.split("/"))


def is_allowed(path: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns means this path."""
    return is_clean(path) and any(_matches(path.split("/"), pattern.strip("/").split("/")) for pattern in patterns)


def _matches(segments: list[str], pattern: list[str]) -> bool:
    if pattern and pattern[-1] == "**":
        pattern, rest = pattern[:-1], len(segments) > len(pattern) - 1
        return rest and _matches(segments[: len(pattern)], pattern)
    return len(segments) == len(pattern) and all(
        wanted in {"*", segment} for segment, wanted in zip(segments, pattern, strict=True)
    )


def asked_headers(headers: Iterable[tuple[str, str]], authorization: str | None) -> list[tuple[str, str]]:
    """What the target is told: nothing of this connection, of our caller's credential or of our inside."""
    told = [(name, value) for name, value in _end_to_end(headers) if name not in MADE_ANEW]
    return [*told, ("authorization", authorization)] if authorization else told


def answered_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """What the caller is told of the target's answer. Where it redirects to is an address inside."""
    return [(name, value) for name, value in _end_to_end(headers) if name not in INSIDE_ONLY]


def _end_to_end(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    given = [(name.lower(), value) for name, value in headers]
    listed = {token.strip().lower() for name, value in given if name == "connection" for token in value.split(",")}
    ours = HOP_BY_HOP | OURS | listed
    return [(name, value) for name, value in given if name not in ours and not name.startswith(OUR_FAMILIES)]
