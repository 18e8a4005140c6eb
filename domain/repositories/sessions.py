"""Sessions of the console, by the hash of their cookie. The database's clock says when one ends."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, delete, func, null, select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import Client, ConsoleSession
from domain.security import Identity


@dataclass(frozen=True)
class Sessions:
    session: AsyncSession

    async def begin(
        self, session_hash: str, form_token: str, seconds: float, client_id: str, key_hash: str | None = None
    ) -> None:
        """Begin a session. What has ended goes with it. What was opened with a key ends no later than the key."""
        await self.session.execute(delete(ConsoleSession).where(ConsoleSession.expires_at < func.statement_timestamp()))
        self.session.add(
            ConsoleSession(
                session_hash=session_hash,
                client_id=client_id,
                form_token=form_token,
                expires_at=func.least(
                    func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds), _end_of_key(key_hash)
                ),
            )
        )
        await self.session.flush()

    async def holder(self, session_hash: str) -> tuple[Identity, str, str] | None:
        """Who is signed in, their name, and the token of their forms. A revoked client is signed in no more."""
        query = (
            select(Client, ConsoleSession.form_token)
            .join(ConsoleSession, ConsoleSession.client_id == Client.client_id)
            .where(_is_open(session_hash), Client.is_active)
        )
        row = (await self.session.execute(query)).first()
        if row is None:
            return None
        client: Client = row[0]
        return Identity(client.client_id, client.role, client.platform_id), client.display_name, row[1]  # type: ignore[arg-type]

    async def end(self, session_hash: str) -> None:
        await self.session.execute(delete(ConsoleSession).where(ConsoleSession.session_hash == session_hash))

    async def end_of(self, client_id: str) -> None:
        """End all that this client has open. What has ended is left to `begin`, which may be waiting for the client."""
        is_open = ConsoleSession.expires_at >= func.clock_timestamp()
        await self.session.execute(delete(ConsoleSession).where(ConsoleSession.client_id == client_id, is_open))


def _end_of_key(key_hash: str | None) -> Any:
    """When the key of this hash works no more; null where it does not end, or there is none."""
    if key_hash is None:
        return null()
    is_current, is_previous = Client.secret_hash == key_hash, Client.previous_secret_hash == key_hash
    until = case((is_current, Client.key_until), (is_previous, Client.previous_until))
    return select(func.min(until)).where(is_current | is_previous).scalar_subquery()


def _is_open(session_hash: str) -> Any:
    return (ConsoleSession.session_hash == session_hash) & (ConsoleSession.expires_at > func.clock_timestamp())
