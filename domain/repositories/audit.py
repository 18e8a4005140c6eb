"""Audit entries and the seals that chain them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import AuditEntry, AuditSeal
from domain.rules.audit import GENESIS, ChainState, Entry, Seal

SEALING = 0x5EA1  # the advisory lock that makes sealers take turns


@dataclass(frozen=True)
class Audit:
    session: AsyncSession

    def add(self, *, actor: str, role: str, action: str, subject: str, details: dict[str, Any]) -> None:
        """Append an entry, in the transaction of the act itself."""
        self.session.add(AuditEntry(actor=actor, role=role, action=action, subject=subject, details=details))

    async def entries(
        self, after: int, limit: int, action: str | None = None, subject: str | None = None
    ) -> Sequence[AuditEntry]:
        """Entries in the order they were made."""
        query = select(AuditEntry).where(AuditEntry.audit_id > after).order_by(AuditEntry.audit_id).limit(limit)
        if action is not None:
            query = query.where(AuditEntry.action == action)
        if subject is not None:
            query = query.where(AuditEntry.subject.startswith(subject, autoescape=True))
        return (await self.session.scalars(query)).all()

    async def may_seal(self) -> bool:
        """Whether this transaction is the one that seals now. Another sealer's work need not be waited for."""
        return bool(await self.session.scalar(select(func.pg_try_advisory_xact_lock(SEALING))))

    async def head(self) -> ChainState:
        """The newest seal."""
        query = select(AuditSeal.sequence, AuditSeal.hash).order_by(AuditSeal.sequence.desc()).limit(1)
        row = (await self.session.execute(query)).first()
        return ChainState(*row) if row else ChainState(0, GENESIS)

    async def settled(self, seconds: float) -> int:
        """The newest entry that is so old. Hardly a transaction that took a number before it can still be open."""
        query = select(func.max(AuditEntry.audit_id)).where(
            AuditEntry.at < func.now() - func.make_interval(0, 0, 0, 0, 0, 0, seconds)
        )
        return await self.session.scalar(query) or 0

    async def unsealed(self, limit: int, above: int, up_to: int | None = None) -> list[Entry]:
        """Committed entries without a seal, oldest first. One that commits late is sealed late, never left out."""
        sealed = select(AuditSeal.sequence).where(AuditSeal.audit_id == AuditEntry.audit_id, AuditSeal.audit_id > above)
        query = select(AuditEntry).where(AuditEntry.audit_id > above)
        if up_to is not None:
            sealed, query = sealed.where(AuditSeal.audit_id <= up_to), query.where(AuditEntry.audit_id <= up_to)
        query = query.where(~sealed.exists()).order_by(AuditEntry.audit_id).limit(limit)
        return [_entry(row) for row in await self.session.scalars(query)]

    async def newest_sealed(self) -> int:
        """The newest entry with a seal; hardly one before it is without."""
        return await self.session.scalar(select(func.max(AuditSeal.audit_id))) or 0

    async def count_unsealed(self) -> int:
        query = text("select (select count(*) from app.audit) - (select count(*) from app.audit_seals)")
        return int(await self.session.scalar(query) or 0)

    def add_seals(self, links: Iterable[tuple[int, int, str]]) -> None:
        """(sequence, audit id, hash) of each."""
        self.session.add_all(AuditSeal(sequence=number, audit_id=entry, hash=value) for number, entry, value in links)

    async def seals(self, after: int, limit: int) -> list[Seal]:
        """Links of the chain with what they cover."""
        query = (
            select(AuditSeal, AuditEntry)
            .outerjoin(AuditEntry, AuditEntry.audit_id == AuditSeal.audit_id)
            .where(AuditSeal.sequence > after)
            .order_by(AuditSeal.sequence)
            .limit(limit)
        )
        found: list[tuple[AuditSeal, AuditEntry | None]] = [
            (link, row) for link, row in await self.session.execute(query)
        ]
        return [
            Seal(link.sequence, link.audit_id, link.hash, None if row is None else _entry(row)) for link, row in found
        ]


def _entry(row: AuditEntry) -> Entry:
    return Entry(row.audit_id, row.at, row.actor, row.role, row.action, row.subject, row.details)
