"""Credentials as operators see them. A key is in one answer only: that to whoever made it."""

from datetime import datetime
from typing import Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

LONGEST_SUBJECT = 255
RoleName = Literal["partner", "reviewer", "operator", "admin", "worker", "gateway"]
ScopeName = Literal["review"]


class ClientCreate(BaseModel):
    model_config = ConfigDict(extra="forbid")

    client_id: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{1,62}$")
    role: RoleName
    platform_id: str | None = Field(default=None, max_length=63, description="For partners: the system they speak for")
    scopes: list[ScopeName] = Field(
        default_factory=list, max_length=1, description="`review`: decides about what others of its platform submitted"
    )
    display_name: str = Field(min_length=1, max_length=200)
    key_days: int | None = Field(
        default=None, ge=1, le=3650, description="How long each key works; None: until revoked"
    )


class Bind(BaseModel):
    """Which person of which provider the client is. The pair is shown to whoever signs in and is not bound yet."""

    model_config = ConfigDict(extra="forbid")

    issuer: str | None = Field(
        default=None, min_length=1, max_length=500, description="`iss`; None: the provider that the console knows"
    )
    subject: str = Field(min_length=1, max_length=LONGEST_SUBJECT, description="`sub`, which is no name or address")


class ClientSummary(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    client_id: str
    role: RoleName
    platform_id: str | None
    scopes: list[ScopeName]
    display_name: str
    is_active: bool
    created_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="To the minute")
    key_prefix: str | None = Field(description="What the newest key begins with, before the dot")
    key_days: int | None
    key_until: datetime | None
    oidc_issuer: str | None = Field(description="Who vouches for the person at the console, with `oidc_subject`")
    oidc_subject: str | None
    previous_key_until: datetime | None = Field(
        validation_alias=AliasChoices("previous_until", "previous_key_until"),
        description="Until then the key before the last rotation works too",
    )


class ClientKey(ClientSummary):
    """Shown this once."""

    api_key: str
