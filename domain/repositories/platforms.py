"""Platforms and credentials."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import exists, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from domain.db import driver
from domain.models import Asset, Client, Platform
from domain.rules.provider import Vouched
from domain.security import Identity

Differences = dict[str, dict[str, Any]]  # of each field that differs: before and after
HOLDER = "select client_id, role, platform_id, scopes from app.clients where is_active and"
HOLDER_NAMED = f"{HOLDER} client_id = %(named)s"
HOLDER_VOUCHED_FOR = f"{HOLDER} oidc_issuer = %(issuer)s and oidc_subject = %(subject)s"
HOLDER_OF_KEY = (
    f"{HOLDER} ((secret_hash = %(named)s and (key_until is null or key_until > clock_timestamp()))"
    " or (previous_secret_hash = %(named)s and previous_until > clock_timestamp()))"
)


@dataclass(frozen=True)
class Platforms:
    session: AsyncSession

    async def active(self, platform_id: str) -> Platform | None:
        platform = await self.session.get(Platform, platform_id)
        return platform if platform and platform.is_active else None

    async def platform_of(self, client_id: str) -> str | None:
        """The platform of an active client."""
        client = await self.session.get(Client, client_id)
        return client.platform_id if client and client.is_active else None

    async def register(self, facts: dict[str, Any]) -> Differences | None:
        """Add or change a platform: what differs from before, None where its assets' identity would."""
        known = await self.session.get(Platform, facts["platform_id"], with_for_update=True)
        if known is None:
            added = insert(Platform).values(**facts).on_conflict_do_nothing().returning(Platform.platform_id)
            is_new = await self.session.scalar(added) is not None
            return _differences(dict.fromkeys(facts), facts) if is_new else {}
        has_assets = await self.session.scalar(select(exists().where(Asset.platform_id == known.platform_id)))
        if has_assets and sorted(known.required_refs) != sorted(facts["required_refs"]):
            return None
        return _changed(known, facts)

    async def change(self, platform_id: str, facts: dict[str, Any]) -> Differences | None:
        """Change what is said of a platform: what differs from before, None where there is no such platform."""
        known = await self.session.get(Platform, platform_id, with_for_update=True)
        return None if known is None else _changed(known, facts)

    async def identity(self, secret_hash: str) -> Identity | None:
        """The active client that holds the secret of this hash, as its key or as the one before."""
        return await self._holder(HOLDER_OF_KEY, named=secret_hash)

    async def identity_of(self, client_id: str) -> Identity | None:
        """The active client of this id, whose token somebody else has verified."""
        return await self._holder(HOLDER_NAMED, named=client_id)

    async def identity_vouched_for(self, person: Vouched) -> Identity | None:
        """The active client that this person is bound to."""
        return await self._holder(HOLDER_VOUCHED_FOR, issuer=person.issuer, subject=person.subject)

    async def clients(self) -> Sequence[Client]:
        return (await self.session.scalars(select(Client).order_by(Client.client_id))).all()

    async def client(self, client_id: str) -> Client | None:
        return await self.session.get(Client, client_id, with_for_update=True)

    async def add_client(self, client: Client) -> bool:
        """False where the id is taken."""
        if await self.client(client.client_id) is not None:
            return False
        self.session.add(client)
        try:
            await self.session.flush()
        except IntegrityError:  # somebody took the id beside us
            return False
        return True

    async def has_client(self, client_id: str) -> bool:
        client = await self.session.get(Client, client_id)
        return client is not None and client.is_active

    async def bind(self, client: Client, person: Vouched) -> bool:
        """Have the client be this person. False where somebody else is them."""
        try:
            async with self.session.begin_nested():
                client.oidc_issuer, client.oidc_subject = person.issuer, person.subject
                await self.session.flush()
        except IntegrityError:
            return False
        return True

    async def _holder(self, query: str, **named: str) -> Identity | None:
        # Asked at every call of the API, so the driver asks.
        found = await (await (await driver(self.session)).execute(query, named)).fetchone()
        if found is None:
            return None
        client_id, role, platform_id, scopes = found
        return Identity(client_id, role, platform_id, frozenset(scopes))


def _changed(platform: Platform, facts: dict[str, Any]) -> Differences:
    before = {name: getattr(platform, name) for name in facts}
    for name, value in facts.items():
        setattr(platform, name, value)
    return _differences(before, facts)


def _differences(before: dict[str, Any], after: dict[str, Any]) -> Differences:
    return {name: {"before": before[name], "after": after[name]} for name in after if before[name] != after[name]}
