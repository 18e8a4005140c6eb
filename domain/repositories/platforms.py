"""Platforms and credentials."""

from dataclasses import dataclass
from typing import cast

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import Client, Platform
from domain.security import Identity, Role


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

    async def identity(self, secret_hash: str) -> Identity | None:
        """The active client that holds the secret of this hash."""
        query = select(Client.client_id, Client.role, Client.platform_id)
        row = (await self.session.execute(query.where(Client.secret_hash == secret_hash, Client.is_active))).first()
        return Identity(row.client_id, cast("Role", row.role), row.platform_id) if row else None
