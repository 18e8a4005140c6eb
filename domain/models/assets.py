"""Assets, their versions, and the revisions that decisions are made about."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from domain.models.base import Base, CreatedAt, EnumText, Json, Moment
from domain.models.platforms import Platform
from domain.rules.lifecycle import ENDED_REQUESTS, OPEN_REQUESTS, REQUEST, REVIEW, Approval, RequestState, sql_list

ENDED_BADLY = [state for state in ENDED_REQUESTS if state is not RequestState.COMPLETED]
# What lists of versions ask for, newest first.
STANDINGS = {
    "listed": "is_listed",
    "waiting": "is_listed and approval = 'pending_review' and processing = 'completed'",
    "working": f"is_listed and processing in {sql_list(OPEN_REQUESTS)}",
    "ended_badly": f"is_listed and processing in {sql_list(ENDED_BADLY)}",
    "rejected": "is_listed and approval = 'rejected'",
}


class Asset(Base):
    """One dataset of one partner, whatever its version. Clearance gates all its versions."""

    __tablename__ = "assets"
    __table_args__ = (
        Index("ix_assets_refs", "refs", postgresql_using="gin"),
        Index("ix_assets_of_platform", "platform_id", "asset_id"),
        CheckConstraint("platform_id <> 'internal' or clearance = 'uncleared'", name="scratch_is_never_cleared"),
    )

    asset_id: Mapped[str] = mapped_column(primary_key=True)
    platform_id: Mapped[str] = mapped_column(ForeignKey(Platform.platform_id))
    refs: Mapped[Json]
    data_type: Mapped[str]
    clearance: Mapped[str] = mapped_column(server_default="uncleared")
    cleared_at: Mapped[Moment]
    cleared_by: Mapped[str | None]
    made_public_at: Mapped[Moment]
    made_public_by: Mapped[str | None]
    exposure: Mapped[str] = mapped_column(server_default="latest_only")
    deleted_at: Mapped[Moment]
    deleted_by: Mapped[str | None]
    created_at: Mapped[CreatedAt]
    lock_version: Mapped[int] = mapped_column(server_default="1")


class AssetVersion(Base):
    """One version: an opaque label with an ordinal that follows acceptance order."""

    __tablename__ = "asset_versions"
    __table_args__ = (
        Index("uq_asset_versions_label", "asset_id", "label", unique=True, postgresql_where=text("deleted_at is null")),
    )

    asset_id: Mapped[str] = mapped_column(ForeignKey(Asset.asset_id), primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    label: Mapped[str]
    served_revision: Mapped[int | None]
    newest_revision: Mapped[int]
    deleted_at: Mapped[Moment]
    deleted_by: Mapped[str | None]
    created_at: Mapped[CreatedAt]
    lock_version: Mapped[int] = mapped_column(server_default="1")


class Revision(Base):
    """What one processing of a version produced, and the decision about it."""

    __tablename__ = "revisions"
    __table_args__ = (
        ForeignKeyConstraint(["asset_id", "ordinal"], [AssetVersion.asset_id, AssetVersion.ordinal]),
        Index("ix_revisions_decided_at", "decided_at", postgresql_where=text("decided_at is not null")),
        Index("ix_revisions_approved_until", "approved_until", postgresql_where=text("approved_until is not null")),
        *(
            Index(f"ix_revisions_{name}", "created_at", "request_id", postgresql_where=text(condition))
            for name, condition in STANDINGS.items()
        ),
    )

    asset_id: Mapped[str] = mapped_column(primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    revision: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    request_id: Mapped[UUID]
    fingerprint: Mapped[str]
    approval: Mapped[Approval] = mapped_column(EnumText(Approval), server_default=REVIEW.initial.value)
    processing: Mapped[RequestState] = mapped_column(EnumText(RequestState), server_default=REQUEST.initial.value)
    decided_by: Mapped[str | None]
    decided_at: Mapped[datetime | None]
    reason: Mapped[str | None]
    approved_until: Mapped[Moment]  # when too few approvals will be left; None where they do not end
    content_hash: Mapped[str | None]
    outputs: Mapped[Json | None]
    created_at: Mapped[CreatedAt]
    # The newest of a version that somebody may decide about: not replaced, not deleted, no scratch.
    is_listed: Mapped[bool] = mapped_column(server_default="true")
