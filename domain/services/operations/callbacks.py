"""What people do about callbacks: name an address for them, look at their tries, send one again, rotate a secret."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from domain.adapters.sealing import PLAIN, Vault
from domain.contracts.callbacks import (
    CallbackDetail,
    CallbackPage,
    CallbackSecretIssued,
    CallbackSummary,
    Delivery,
)
from domain.errors import CallbackRefused, CallbackUnderWay, InvalidPage, NotFound
from domain.models import Callback, CallbackEndpoint
from domain.repositories.callbacks import Callbacks
from domain.repositories.platforms import Platforms
from domain.repositories.requests import Requests
from domain.rules.addresses import AddressPolicy, RefusedAddress, parse
from domain.rules.callbacks import CallbackState, webhook_id
from domain.rules.paging import NoSuchPage, Position, from_token, to_token
from domain.security import Identity, new_callback_secret
from domain.services.operations.audit import record


@dataclass(frozen=True)
class CallbackDesk:
    session: AsyncSession
    policy: AddressPolicy
    vault: Vault
    overlap_seconds: float

    async def accept(self, client_id: str, url: str | None) -> None:
        """Refuse an address that would never be called, at the moment when its sender can be told."""
        if url is None:
            return
        try:
            parse(url, self.policy)
        except RefusedAddress as error:
            raise CallbackRefused(f"callback_url: {error}") from error
        if not await Callbacks(self.session).has_secret(client_id):
            raise CallbackRefused(
                f"Client {client_id} has no callback secret to sign with. Ask an operator for one, or leave out "
                f"callback_url and ask for the status instead."
            )

    async def page(
        self, limit: int, token: str | None, request_id: UUID | None, state: CallbackState | None
    ) -> CallbackPage:
        """Return one page of callbacks, newest first."""
        rows = await Callbacks(self.session).page(limit, place_of(token), request_id, state)
        last = rows[-1][0] if len(rows) == limit else None
        return CallbackPage(
            callbacks=[CallbackSummary(**_facts(*row)) for row in rows],
            next=to_token(Position(last.created_at, last.callback_id)) if last else None,
        )

    async def read(self, callback_id: UUID) -> CallbackDetail:
        """Return one callback with every try."""
        callback, endpoint = await self._found(callback_id)
        tries = await Callbacks(self.session).deliveries(callback_id)
        return CallbackDetail(
            **_facts(callback, endpoint),
            deliveries=[Delivery.model_validate(entry, from_attributes=True) for entry in tries],
        )

    async def replay(self, callback_id: UUID, caller: Identity) -> CallbackDetail:
        """Send it again under the same id, from the schedule's beginning; a disabled endpoint is enabled by that.

        At a disabled endpoint nothing is on its way, whatever a sender that is gone left there.
        """
        callback, endpoint = await self._found(callback_id)
        if callback.state in {CallbackState.READY, CallbackState.SENDING} and endpoint.disabled_at is None:
            raise CallbackUnderWay("This callback is on its way already. Replay it once it is delivered or given up.")
        await Callbacks(self.session).send_again(callback)
        Requests(self.session).add_event(
            callback.request_id, "callback.replayed", actor=caller.client_id, callback_id=str(callback_id)
        )
        record(self.session, caller, "callback.replay", f"callback/{callback_id}")
        await self.session.flush()
        self.session.expire_all()
        return await self.read(callback_id)

    async def rotate_secret(self, client_id: str, caller: Identity) -> CallbackSecretIssued:
        """A new secret, shown once; the one before goes on signing beside it for a while."""
        if not await Platforms(self.session).has_client(client_id):
            raise NotFound(f"There is no active client {client_id}.")
        record(self.session, caller, "client.callback-secret", f"client/{client_id}")
        secret = new_callback_secret()
        until = await Callbacks(self.session).rotate_secret(client_id, self.vault.seal(secret), self.overlap_seconds)
        return CallbackSecretIssued(client_id=client_id, callback_secret=secret, previous_signs_until=until)

    async def _found(self, callback_id: UUID) -> tuple[Callback, CallbackEndpoint]:
        found = await Callbacks(self.session).get(callback_id)
        if found is None:
            raise NotFound(f"There is no callback {callback_id}.")
        return found


async def seal_readable(session: AsyncSession, vault: Vault) -> int:
    """Seal secrets that were stored readable, if there is a key now; return how many."""
    if not vault.seals:
        return 0
    found = await Callbacks(session).secrets_marked(PLAIN)
    for secret in found:
        secret.sealed = vault.seal(vault.open(secret.sealed))
    return len(found)


def place_of(token: str | None) -> Position | None:
    """Return the place at which the page of this token begins."""
    try:
        return None if token is None else from_token(token)
    except NoSuchPage as error:
        raise InvalidPage(str(error)) from error


def _facts(callback: Callback, endpoint: CallbackEndpoint) -> dict[str, object]:
    return {
        "callback_id": callback.callback_id,
        "webhook_id": webhook_id(callback.callback_id),
        "request_id": callback.request_id,
        "client_id": endpoint.client_id,
        "url": endpoint.url,
        "status": callback.status,
        "state": callback.state.value,
        "tries": callback.tries,
        "next_try_at": callback.next_at if callback.state is CallbackState.READY else None,
        "created_at": callback.created_at,
        "finished_at": callback.finished_at,
        "endpoint_disabled_at": endpoint.disabled_at,
    }
