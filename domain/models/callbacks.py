"""Callbacks: the outbox of them, the endpoints they go to, the secrets that sign them, and the log of their tries."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from domain.models.base import Base, CreatedAt, EnumText, Json, Moment
from domain.models.platforms import Client
from domain.models.requests import Request
from domain.rules.callbacks import CallbackState


class CallbackEndpoint(Base):
    """One URL of one client: what its answers say about it holds for all callbacks that go there."""

    __tablename__ = "callback_endpoints"
    __table_args__ = (UniqueConstraint("client_id", "url"),)

    endpoint_id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    client_id: Mapped[str] = mapped_column(ForeignKey(Client.client_id))
    url: Mapped[str]
    failures: Mapped[int] = mapped_column(server_default="0")
    disabled_at: Mapped[Moment]
    created_at: Mapped[CreatedAt]


class CallbackSecret(Base):
    """A signing secret, sealed where the service has a key for it. Two are live while a rotation is under way."""

    __tablename__ = "callback_secrets"
    __table_args__ = (Index("ix_callback_secrets_client_id", "client_id"),)

    secret_id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    client_id: Mapped[str] = mapped_column(ForeignKey(Client.client_id))
    sealed: Mapped[str]
    retires_at: Mapped[Moment]
    created_at: Mapped[CreatedAt]


class Callback(Base):
    """One message to a partner: written with the change that it tells of, sent afterwards.

    `next_at` is when it is due: for `ready` the next try, for `sending` the end of the sender's lease.
    `claim` numbers the leases, so that a sender who overslept writes nothing.
    """

    __tablename__ = "callbacks"
    __table_args__ = (
        Index("ix_callbacks_due", "endpoint_id", "next_at", postgresql_where=text("state in ('ready', 'sending')")),
        Index("ix_callbacks_request_id", "request_id"),
        Index("ix_callbacks_created_at_callback_id", "created_at", "callback_id"),
        Index(
            "ix_callbacks_undelivered",
            "state",
            "created_at",
            "callback_id",
            postgresql_where=text("state <> 'delivered'"),
        ),
    )

    callback_id: Mapped[UUID] = mapped_column(primary_key=True)
    request_id: Mapped[UUID] = mapped_column(ForeignKey(Request.request_id))
    endpoint_id: Mapped[int] = mapped_column(ForeignKey(CallbackEndpoint.endpoint_id))
    status: Mapped[str]
    problem: Mapped[Json | None]
    state: Mapped[CallbackState] = mapped_column(EnumText(CallbackState), server_default=CallbackState.READY.value)
    tries: Mapped[int] = mapped_column(server_default="0")
    claim: Mapped[int] = mapped_column(server_default="0")
    next_at: Mapped[datetime] = mapped_column(server_default=func.now())
    created_at: Mapped[CreatedAt]
    finished_at: Mapped[Moment]


class CallbackDelivery(Base):
    """One try: what was answered, or what was in the way. Of an answer's body only a short excerpt is kept."""

    __tablename__ = "callback_deliveries"
    __table_args__ = (Index("ix_callback_deliveries_callback_id", "callback_id"),)

    delivery_id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    callback_id: Mapped[UUID] = mapped_column(ForeignKey(Callback.callback_id))
    status_code: Mapped[int | None]
    error: Mapped[str | None]
    excerpt: Mapped[str | None]
    duration_ms: Mapped[int]
    at: Mapped[CreatedAt]
