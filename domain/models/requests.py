"""What a partner asked for, and the trail of what happened to it."""

from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from domain.models.base import Base, CreatedAt, EnumText, Json, Moment
from domain.models.platforms import Client, Platform
from domain.rules.lifecycle import OPEN_REQUESTS, REQUEST, RequestState, sql_list

IS_OPEN = f"status in {sql_list(OPEN_REQUESTS)}"


class Request(Base):
    """One submission. Partners see this and nothing below it."""

    __tablename__ = "requests"
    __table_args__ = (
        Index(
            "uq_requests_idempotency_key",
            "platform_id",
            "idempotency_key",
            unique=True,
            postgresql_where=text("idempotency_key is not null"),
        ),
        Index("ix_requests_open", "platform_id", postgresql_where=text(IS_OPEN)),
        Index(
            "ix_requests_active",
            "created_at",
            "request_id",
            postgresql_where=text(IS_OPEN),
        ),
        Index("ix_requests_asset_id_ordinal", "asset_id", "ordinal"),
        Index("ix_requests_created_at", "created_at"),
        Index(
            "ix_requests_to_collect",
            "status",
            "finished_at",
            postgresql_where=text("collected_at is null and finished_at is not null"),
        ),
        Index("ix_requests_of_platform", "platform_id", "created_at", "request_id"),
        CheckConstraint("client_id is not null or is_internal", name="somebody_asked"),
    )

    request_id: Mapped[UUID] = mapped_column(primary_key=True)
    platform_id: Mapped[str | None] = mapped_column(ForeignKey(Platform.platform_id))
    client_id: Mapped[str | None] = mapped_column(ForeignKey(Client.client_id))  # none: the service by itself
    is_internal: Mapped[bool] = mapped_column(server_default="false")
    data_type: Mapped[str | None]
    operation: Mapped[str]
    submitted: Mapped[Json]
    fingerprint: Mapped[str]
    idempotency_key: Mapped[str | None]
    priority: Mapped[str]
    callback_url: Mapped[str | None]
    asset_id: Mapped[str | None]
    ordinal: Mapped[int | None]
    revision: Mapped[int | None]
    plan: Mapped[Json | None]  # of a request with several runs: the pinned plan and its inputs
    status: Mapped[RequestState] = mapped_column(EnumText(RequestState), server_default=REQUEST.initial.value)
    result: Mapped[Json | None]
    problem: Mapped[Json | None]
    created_at: Mapped[CreatedAt]
    finished_at: Mapped[Moment]
    collecting_at: Mapped[Moment]  # when somebody went to remove what it left over: nothing may count on that any more
    collected_at: Mapped[Moment]  # when nothing was left over any more

    @property
    def is_of_the_service(self) -> bool:
        """Whether the service ordered it by itself."""
        return self.is_internal and self.client_id is None

    @property
    def collected(self) -> RequestState | None:
        """The end state of a request whose leftovers are being removed or gone: it cannot go on from there."""
        return None if self.collecting_at is None else self.status

    @property
    def asked_nodes(self) -> list[str] | None:
        """The nodes that an operator's run was ordered for; None where it was ordered for all."""
        return self.submitted.get("only") if self.is_internal else None

    @property
    def known_outputs(self) -> Json | None:
        """What an operator's run of a part was given of the other nodes."""
        return self.submitted.get("known") if self.is_internal else None


class LaterKey(Base):
    """An idempotency key that came with a duplicate: it stands for the first submission's request too."""

    __tablename__ = "later_keys"

    platform_id: Mapped[str] = mapped_column(primary_key=True)
    idempotency_key: Mapped[str] = mapped_column(primary_key=True)
    request_id: Mapped[UUID] = mapped_column(ForeignKey(Request.request_id))


class Event(Base):
    """One thing that happened to a request, in order."""

    __tablename__ = "events"
    __table_args__ = (Index("ix_events_request_id_event_id", "request_id", "event_id"),)

    event_id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    request_id: Mapped[UUID] = mapped_column(ForeignKey(Request.request_id))
    run_id: Mapped[UUID | None]
    kind: Mapped[str]
    actor: Mapped[str | None]
    details: Mapped[Json] = mapped_column(server_default="{}")
    at: Mapped[CreatedAt]
