"""The audit's use cases: record an act, seal what was committed, verify the chain."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.audit import AuditVerdict
from domain.repositories.audit import Audit
from domain.rules.audit import GENESIS, Chain, ChainState, key_name
from domain.security import Identity

BATCH = 500
SETTLED_SECONDS = 600.0
STRETCH = 1000  # of what is old, in one look: three million entries in under two hours
THE_SERVICE = Identity("cairn-domain", "admin")
PREFECT = Identity("prefect", "operator")  # who orders in Prefect's UI; it does not tell us their name


def record(session: AsyncSession, who: Identity, action: str, subject: str, **details: Any) -> None:
    """Add an audit entry in the act's own transaction: a rollback removes both."""
    Audit(session).add(actor=who.client_id, role=who.role, action=action, subject=subject, details=details)


@dataclass(frozen=True)
class Reach:
    """How far the looks for unsealed entries have come.

    What is not above the floor was sealed when it was looked at: entries commit out of the order of their numbers, so
    the floor stays behind the newest. Below it each look goes through one more stretch, from where the last one ended,
    and from the beginning again: a transaction that was open for longer than anybody thought has its entries sealed.
    """

    floor: int
    gone_through: int = 0


async def first_reach(session: AsyncSession) -> Reach:
    """Return where a process begins to look: a little before the last seal."""
    return Reach(max(0, await Audit(session).newest_sealed() - STRETCH))


async def seal_batch(session: AsyncSession, chain: Chain, reach: Reach) -> tuple[int, Reach]:
    """Seal entries that have no seal yet; return how many, and where the next look begins."""
    audit = Audit(session)
    if not await audit.may_seal():
        return 0, reach
    settled = await audit.settled(SETTLED_SECONDS)  # asked first: what it finds is seen by the look
    head = await audit.head()
    sequence, previous, links = head.sequence, head.hash, []
    until = min(reach.gone_through + STRETCH, reach.floor)
    late, new = await audit.unsealed(STRETCH, reach.gone_through, until), await audit.unsealed(BATCH, reach.floor)
    for entry in (*late, *new):
        sequence, previous = sequence + 1, chain.seal(previous, entry)
        links.append((sequence, entry.audit_id, previous))
    audit.add_seals(links)
    looked_up_to = new[-1].audit_id if len(new) == BATCH else settled
    floor = max(reach.floor, min(settled, looked_up_to))
    return len(links), Reach(floor, 0 if until == reach.floor else until)


@dataclass(frozen=True)
class Verification:
    """Reads the chain from its first seal to its last."""

    session: AsyncSession
    chain: Chain

    async def run(self, known_sequence: int | None = None, known_hash: str | None = None) -> AuditVerdict:
        """Whether every seal holds, and whether the chain still goes through a head that was noted earlier.

        The chain alone cannot tell that its end was cut off; a noted head can.
        """
        head, met = ChainState(0, GENESIS), known_sequence is None
        while links := await Audit(self.session).seals(head.sequence, BATCH):
            for link in links:
                head = self.chain.verify([link], head)
                if head.fault:
                    return await self._verdict(head, head.fault)
                met = met or (head.sequence == known_sequence and head.hash == known_hash)
        missed = (
            None if met else f"The chain does not go through the noted seal {known_sequence}: it was cut or remade."
        )
        return await self._verdict(head, missed)

    async def _verdict(self, head: ChainState, fault: str | None) -> AuditVerdict:
        return AuditVerdict(
            holds=fault is None,
            sequence=head.sequence,
            hash=head.hash,
            unsealed=await Audit(self.session).count_unsealed(),
            is_keyed=self.chain.key_name is not None and key_name(head.hash) is not None,
            fault=fault,
        )
