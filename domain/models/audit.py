"""The audit: entries that are only ever added, and the seals that chain them after they were committed."""

from sqlalchemy import BigInteger, ForeignKey, Identity, Index
from sqlalchemy.orm import Mapped, mapped_column

from domain.models.base import Base, CreatedAt, Json


class AuditEntry(Base):
    """One decision, command or act about credentials. The transaction that acts adds it."""

    __tablename__ = "audit"
    __table_args__ = (
        Index("ix_audit_subject", "subject", "audit_id", postgresql_ops={"subject": "text_pattern_ops"}),
        Index("ix_audit_actor", "actor", "audit_id"),
        Index("ix_audit_action", "action", "audit_id"),
    )

    audit_id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    at: Mapped[CreatedAt]
    actor: Mapped[str]
    role: Mapped[str]
    action: Mapped[str]
    subject: Mapped[str]
    details: Mapped[Json] = mapped_column(server_default="{}")


class AuditSeal(Base):
    """One link of the chain over the entries. Made after the commit: inside it, all commits would take turns."""

    __tablename__ = "audit_seals"

    sequence: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    audit_id: Mapped[int] = mapped_column(ForeignKey(AuditEntry.audit_id), unique=True)
    hash: Mapped[str]
    sealed_at: Mapped[CreatedAt]
