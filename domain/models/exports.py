"""Which revisions were sent to the external zone, and which of them were taken back."""

from uuid import UUID

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from domain.models.assets import Revision
from domain.models.base import Base, CreatedAt, Moment
from domain.models.requests import Request


class Export(Base):
    """One revision's way out. It is live until it is withdrawn, and a withdrawn one never becomes live again.

    Each has a destination of its own: what is removed late belongs to nothing that was exported since.
    """

    __tablename__ = "exports"
    __table_args__ = (
        ForeignKeyConstraint(
            ["asset_id", "ordinal", "revision"], [Revision.asset_id, Revision.ordinal, Revision.revision]
        ),
        Index(
            "uq_exports_live",
            "asset_id",
            "ordinal",
            "revision",
            unique=True,
            postgresql_where=text("withdrawn_at is null"),
        ),
    )

    request_id: Mapped[UUID] = mapped_column(ForeignKey(Request.request_id), primary_key=True)
    asset_id: Mapped[str]
    ordinal: Mapped[int]
    revision: Mapped[int]
    destination: Mapped[str]
    created_at: Mapped[CreatedAt]
    withdrawn_at: Mapped[Moment]
    withdrawal_id: Mapped[UUID | None] = mapped_column(ForeignKey(Request.request_id))
