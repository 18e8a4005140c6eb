"""Sessions of people who are signed in to the console."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from domain.models.base import Base, CreatedAt
from domain.models.platforms import Client


class ConsoleSession(Base):
    """One browser, by the hash of its cookie."""

    __tablename__ = "console_sessions"
    __table_args__ = (Index("ix_console_sessions_expires_at", "expires_at"),)

    session_hash: Mapped[str] = mapped_column(primary_key=True)
    client_id: Mapped[str] = mapped_column(ForeignKey(Client.client_id))
    form_token: Mapped[str]
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime]
