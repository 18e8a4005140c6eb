"""Which internal services operators may reach, and by which paths. Pure; knows no HTTP client."""

import re
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field, HttpUrl, SecretStr, field_validator

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
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
