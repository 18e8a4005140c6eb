"""Approvals, one row each: a revision is served once its platform's number of them hold."""

from sqlalchemy import BigInteger, ForeignKeyConstraint, Identity, Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from domain.models.assets import Revision
from domain.models.base import Base, CreatedAt, Moment


class GivenApproval(Base):
    """One reviewer's yes to a revision with this content, for these readers. Only its withdrawal changes it."""

    __tablename__ = "approvals"
    __table_args__ = (
        ForeignKeyConstraint(
            ["asset_id", "ordinal", "revision"], [Revision.asset_id, Revision.ordinal, Revision.revision]
        ),
        Index("ix_approvals_revision", "asset_id", "ordinal", "revision"),
        Index("ix_approvals_expires_at", "expires_at", postgresql_where=text("expires_at is not null")),
    )

    approval_id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    asset_id: Mapped[str]
    ordinal: Mapped[int]
    revision: Mapped[int]
    reviewer: Mapped[str]
    clearance_level: Mapped[str]
    comment: Mapped[str | None]
    content_hash: Mapped[str | None]
    given_at: Mapped[CreatedAt] = mapped_column(server_default=func.clock_timestamp())
    expires_at: Mapped[Moment]
    withdrawn_at: Mapped[Moment]
    withdrawn_reason: Mapped[str | None]
