"""What operators are told about files and tables that ended requests left over."""

from datetime import datetime

from pydantic import BaseModel, Field


class EndedRequests(BaseModel):
    """Requests that ended in one way and have not been looked at since."""

    status: str
    requests: int
    due: int = Field(description="Those whose time has come: the collector takes them next")
    oldest: datetime = Field(description="When the first of them ended")


class LeftoversView(BaseModel):
    """What the collector still has before it, and how long it leaves things alone."""

    ended: list[EndedRequests]
    kept_after_success_seconds: float
    kept_after_failure_seconds: float


class Stray(BaseModel):
    """A file of a zone that no row needs."""

    zone: str
    name: str
    size_bytes: int
    reason: str


class Looked(BaseModel):
    """The end of a look through the zones."""

    files: int
    strays: int
    stray_bytes: int
    removed: int
