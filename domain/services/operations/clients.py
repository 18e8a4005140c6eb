"""Credentials: made, rotated, revoked. Keys leave here once and are kept as hashes."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.clients import Bind, ClientCreate, ClientKey, ClientSummary
from domain.errors import ClientExists, ClientRevoked, Forbidden, InvalidClient, NotFound
from domain.models import Client
from domain.repositories.platforms import Platforms
from domain.repositories.sessions import Sessions
from domain.rules.provider import Vouched, is_subject
from domain.security import STAFF, Identity, may_hand_out, may_take_away, new_key, secret_hash, shown_part
from domain.services.operations.audit import record


@dataclass(frozen=True)
class ClientDesk:
    session: AsyncSession
    overlap_seconds: float

    async def listed(self) -> list[ClientSummary]:
        return [ClientSummary.model_validate(client) for client in await Platforms(self.session).clients()]

    async def create(self, order: ClientCreate, caller: Identity) -> ClientKey:
        """A new client and its first key."""
        _refuse_unless_grantable(caller, order.role, order.scopes)
        await self._check_platform(order)
        client = Client(**order.model_dump())
        key = _give_key(client)
        if not await Platforms(self.session).add_client(client):
            raise ClientExists(f"There is a client {order.client_id} already. Choose another id, or rotate its key.")
        record(self.session, caller, "client.create", f"client/{order.client_id}", role=order.role, scopes=order.scopes)
        return await self._with_key(client, key)

    async def rotate(self, client_id: str, caller: Identity) -> ClientKey:
        """A new key; the one before works on for a while, so that nothing stops meanwhile."""
        client = await self._grantable_client(client_id, caller)
        overlap = func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, self.overlap_seconds)
        client.previous_secret_hash, client.previous_until = client.secret_hash, func.least(overlap, client.key_until)
        key = _give_key(client)
        await Sessions(self.session).end_of(client_id)
        record(self.session, caller, "client.rotate", f"client/{client_id}")
        return await self._with_key(client, key)

    async def bind(self, client_id: str, order: Bind, known_issuer: str | None, caller: Identity) -> ClientSummary:
        """Let this person, and no other of their provider, sign in as this client."""
        client = await self._grantable_client(client_id, caller)
        issuer = order.issuer or known_issuer
        if client.role not in STAFF:
            raise InvalidClient(f"The console is for staff; {client_id} is a {client.role}'s client.")
        if issuer is None or not is_subject(order.subject) or not issuer.isprintable():
            raise InvalidClient("Name the issuer and the subject as the page says that whoever is not bound sees.")
        if (client.oidc_issuer, client.oidc_subject) != (issuer, order.subject):
            if not await Platforms(self.session).bind(client, Vouched(issuer, order.subject)):
                raise ClientExists("This person is another client already. Unbind or revoke that one first.")
            await Sessions(self.session).end_of(client_id)
            record(
                self.session,
                caller,
                "client.bind",
                f"client/{client_id}",
                oidc_issuer=issuer,
                oidc_subject=order.subject,
            )
        return await self._summary(client)

    async def unbind(self, client_id: str, caller: Identity) -> ClientSummary:
        """Have nobody of a provider be this client any more."""
        client = await self._client(client_id)
        if not may_take_away(caller.role, client.role):  # type: ignore[arg-type]
            raise Forbidden(f"Clients of role {client.role} are unbound by admins; yours is a {caller.role}'s.")
        if client.oidc_subject is not None:
            client.oidc_issuer = client.oidc_subject = None
            await Sessions(self.session).end_of(client_id)
            record(self.session, caller, "client.unbind", f"client/{client_id}")
        return await self._summary(client)

    async def revoke(self, client_id: str, caller: Identity) -> ClientSummary:
        """End both of the client's keys now. Revoking again changes nothing."""
        client = await self._client(client_id)
        if not may_take_away(caller.role, client.role):  # type: ignore[arg-type]
            raise Forbidden(f"Credentials of role {client.role} are revoked by admins; yours is a {caller.role}'s.")
        if client.is_active:
            client.is_active = False
            client.oidc_issuer = client.oidc_subject = None  # the person may become another client
            client.previous_until = None
            client.revoked_at = func.clock_timestamp()
            await Sessions(self.session).end_of(client_id)
            record(self.session, caller, "client.revoke", f"client/{client_id}")
        return await self._summary(client)

    async def _check_platform(self, order: ClientCreate) -> None:
        if (order.role == "partner") != (order.platform_id is not None):
            raise InvalidClient("A partner's client names its platform_id; every other client names none.")
        if order.scopes and order.role != "partner":
            raise InvalidClient("Scopes are for partners' clients; what others may do is told by their role.")
        if order.platform_id and await Platforms(self.session).active(order.platform_id) is None:
            raise InvalidClient(f"There is no active platform {order.platform_id!r}.")

    async def _client(self, client_id: str) -> Client:
        client = await Platforms(self.session).client(client_id)
        if client is None:
            raise NotFound(f"There is no client {client_id}.")
        return client

    async def _grantable_client(self, client_id: str, caller: Identity) -> Client:
        """Return the active client if this caller may hand out what it holds."""
        client = await self._client(client_id)
        _refuse_unless_grantable(caller, client.role, client.scopes)
        if not client.is_active:
            raise ClientRevoked(f"Client {client_id} was revoked. Make a new client.")
        return client

    async def _summary(self, client: Client) -> ClientSummary:
        await self.session.flush()
        await self.session.refresh(client)
        return ClientSummary.model_validate(client)

    async def _with_key(self, client: Client, key: str) -> ClientKey:
        return ClientKey(**(await self._summary(client)).model_dump(), api_key=key)


def _give_key(client: Client) -> str:
    """Give the client a new key, valid for as long as the client's keys are."""
    key = new_key()
    client.secret_hash, client.key_prefix = secret_hash(key), shown_part(key)
    days = client.key_days
    client.key_until = None if days is None else func.clock_timestamp() + func.make_interval(0, 0, 0, days)
    return key


def _refuse_unless_grantable(caller: Identity, role: str, scopes: Collection[str]) -> None:
    if not may_hand_out(caller.role, role, scopes):  # type: ignore[arg-type]
        scoped = f" with the scope {', '.join(scopes)}" if scopes else ""
        raise Forbidden(
            f"Credentials of role {role}{scoped} are handed out by admins, so that nobody who operates decides by "
            f"another's name; this credential is a {caller.role}'s."
        )
