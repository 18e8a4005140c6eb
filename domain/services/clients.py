"""Credentials: made, rotated, revoked. Keys leave here once and are kept as hashes."""

from dataclasses import dataclass

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.clients import ClientCreate, ClientKey, ClientSummary
from domain.errors import ClientExists, ClientRevoked, Forbidden, InvalidClient, NotFound
from domain.models import Client
from domain.repositories.platforms import Platforms
from domain.repositories.sessions import Sessions
from domain.security import Identity, may_manage, new_key, secret_hash, shown_part
from domain.services.audit import record


@dataclass(frozen=True)
class ClientDesk:
    session: AsyncSession
    overlap_seconds: float

    async def listed(self) -> list[ClientSummary]:
        return [ClientSummary.model_validate(client) for client in await Platforms(self.session).clients()]

    async def create(self, order: ClientCreate, caller: Identity) -> ClientKey:
        """A new client and its first key."""
        _refuse_unless_managed(caller, order.role)
        await self._check_platform(order)
        client = Client(**order.model_dump())
        key = _give_key(client)
        if not await Platforms(self.session).add_client(client):
            raise ClientExists(f"There is a client {order.client_id} already. Choose another id, or rotate its key.")
        record(self.session, caller, "client.create", f"client/{order.client_id}", role=order.role, scopes=order.scopes)
        return await self._with_key(client, key)

    async def rotate(self, client_id: str, caller: Identity) -> ClientKey:
        """A new key; the one before works on for a while, so that nothing stops meanwhile."""
        client = await self._managed(client_id, caller)
        if not client.is_active:
            raise ClientRevoked(f"Client {client_id} was revoked. Make a new client.")
        overlap = func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, self.overlap_seconds)
        client.previous_secret_hash, client.previous_until = client.secret_hash, func.least(overlap, client.key_until)
        key = _give_key(client)
        await Sessions(self.session).end_of(client_id)
        record(self.session, caller, "client.rotate", f"client/{client_id}")
        return await self._with_key(client, key)

    async def revoke(self, client_id: str, caller: Identity) -> ClientSummary:
        """Neither of its keys works from now on. Revoking again changes nothing."""
        client = await self._managed(client_id, caller)
        if client.is_active:
            client.is_active = False
            client.previous_until = None
            client.revoked_at = func.clock_timestamp()
            await Sessions(self.session).end_of(client_id)
            record(self.session, caller, "client.revoke", f"client/{client_id}")
            await self.session.flush()
            await self.session.refresh(client)
        return ClientSummary.model_validate(client)

    async def _check_platform(self, order: ClientCreate) -> None:
        if (order.role == "partner") != (order.platform_id is not None):
            raise InvalidClient("A partner's client names its platform_id; every other client names none.")
        if order.scopes and order.role != "partner":
            raise InvalidClient("Scopes are for partners' clients; what others may do is told by their role.")
        if order.platform_id and await Platforms(self.session).active(order.platform_id) is None:
            raise InvalidClient(f"There is no active platform {order.platform_id!r}.")

    async def _managed(self, client_id: str, caller: Identity) -> Client:
        client = await Platforms(self.session).client(client_id)
        if client is None:
            raise NotFound(f"There is no client {client_id}.")
        _refuse_unless_managed(caller, client.role)
        return client

    async def _with_key(self, client: Client, key: str) -> ClientKey:
        await self.session.flush()
        await self.session.refresh(client)
        return ClientKey(**ClientSummary.model_validate(client).model_dump(), api_key=key)


def _give_key(client: Client) -> str:
    """A new key, which works for as long as the client's keys do."""
    key = new_key()
    client.secret_hash, client.key_prefix = secret_hash(key), shown_part(key)
    days = client.key_days
    client.key_until = None if days is None else func.clock_timestamp() + func.make_interval(0, 0, 0, days)
    return key


def _refuse_unless_managed(caller: Identity, role: str) -> None:
    if not may_manage(caller.role, role):  # type: ignore[arg-type]
        raise Forbidden(f"Credentials of role {role} are managed by admins; this credential is a {caller.role}'s.")
