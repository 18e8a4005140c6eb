"""Who may talk to us: partner systems and the credentials of partners, people and services."""

from sqlalchemy import CheckConstraint, ForeignKey, UniqueConstraint
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import Text

from domain.models.base import Base, CreatedAt, Json, Moment


class Platform(Base):
    """A partner's system: which references name an asset there, and how its words map to ours."""

    __tablename__ = "platforms"
    __table_args__ = (
        CheckConstraint("platform_id <> 'internal' or not is_active", name="scratch_is_nobodys"),
        CheckConstraint("share between 1 and 100", name="share_is_some"),
        CheckConstraint("priority_cap in ('low', 'normal', 'high')", name="cap_is_a_priority"),
    )

    platform_id: Mapped[str] = mapped_column(primary_key=True)
    display_name: Mapped[str]
    required_refs: Mapped[list[str]] = mapped_column(ARRAY(Text))
    optional_refs: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default="{}")
    version_ref: Mapped[str]
    field_mapping: Mapped[Json] = mapped_column(server_default="{}")
    is_active: Mapped[bool] = mapped_column(server_default="true")
    approvals_required: Mapped[int] = mapped_column(server_default="1")
    approval_days: Mapped[int | None]  # how long an approval holds that names no end itself
    source_prefixes: Mapped[list[str]] = mapped_column(
        ARRAY(Text), server_default="{}"
    )  # where its blobs lie; none: nowhere
    share: Mapped[int] = mapped_column(server_default="1")  # how many runs go in its turn where others go in theirs
    priority_cap: Mapped[str] = mapped_column(server_default="normal")  # what it asks for above it is lowered to it


class Client(Base):
    """A credential: only its SHA-256 is kept. Secrets are 256 random bits, so a plain hash cannot be guessed back.

    After a rotation the key before works on until `previous_until`. `last_used_at` is true to the minute. A person of
    staff may also be whom a provider of identities calls by this issuer and subject.
    """

    __tablename__ = "clients"
    __table_args__ = (
        CheckConstraint("platform_id is distinct from 'internal'", name="scratch_has_no_client"),
        CheckConstraint("(oidc_issuer is null) = (oidc_subject is null)", name="bound_by_both"),
        UniqueConstraint("oidc_issuer", "oidc_subject"),
    )

    client_id: Mapped[str] = mapped_column(primary_key=True)
    platform_id: Mapped[str | None] = mapped_column(ForeignKey(Platform.platform_id))
    role: Mapped[str]
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default="{}")
    display_name: Mapped[str]
    secret_hash: Mapped[str] = mapped_column(unique=True)
    key_prefix: Mapped[str | None]  # what its key begins with
    key_days: Mapped[int | None]  # how long each of its keys works
    key_until: Mapped[Moment]
    previous_secret_hash: Mapped[str | None] = mapped_column(unique=True)
    previous_until: Mapped[Moment]
    oidc_issuer: Mapped[str | None]
    oidc_subject: Mapped[str | None]
    is_active: Mapped[bool] = mapped_column(server_default="true")
    revoked_at: Mapped[Moment]
    last_used_at: Mapped[Moment]
    created_at: Mapped[CreatedAt]
