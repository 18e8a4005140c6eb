"""The state of the database and its schema, for administrators: looked at, migrated, and in development made anew."""

import asyncio
from dataclasses import dataclass
from typing import Any

from domain.contracts.bootstrap import BootstrapStatus, TableFacts
from domain.db import Database
from domain.errors import NotConfigured, NotInDevelopment
from domain.repositories import schema
from domain.repositories.processes import Processes
from domain.repositories.runs import Runs
from domain.security import Identity
from domain.services.audit import record
from domain.services.definitions import Definitions
from domain.settings import DomainSettings


@dataclass(frozen=True)
class Bootstrap:
    database: Database
    settings: DomainSettings
    definitions: Definitions

    async def status(self) -> BootstrapStatus:
        """Whether the database is what this service was written for."""
        async with self.database.transaction() as session:
            facts = await schema.versions(session)
        head = schema.head()
        return BootstrapStatus(
            schema_current=facts["current"],
            schema_head=head,
            is_current=facts["current"] == head,
            postgresql=facts["postgresql"],
            postgis=facts["postgis"],
            pgstac=facts["pgstac"],
            workflows=sorted(self.definitions.by_id),
            may_migrate=self.settings.admin_url is not None,
            development=self.settings.development,
        )

    async def tables(self) -> list[TableFacts]:
        async with self.database.transaction() as session:
            return [TableFacts(**row) for row in await schema.tables(session)]

    def ddl(self) -> str:
        return schema.ddl()

    async def deploy(self, caller: Identity) -> list[str]:
        """Publish the workflows of this image. Published ones stay as they are."""
        names = sorted(self.definitions.by_id)
        async with self.database.transaction() as session:
            await self.definitions.publish(Runs(session), Processes(session))
            record(session, caller, "workflows.publish", "workflows", workflows=names)
        return names

    async def migrate(self, caller: Identity) -> bool:
        """Bring the schema up to date; False where it was."""
        from domain.migrations import upgrade

        url = self._admin_url()
        async with self.database.transaction() as session:
            before: dict[str, Any] = await schema.versions(session)
        changed = bool(before["current"] != schema.head())
        if changed:
            await asyncio.to_thread(upgrade, url)
        async with self.database.transaction() as session:
            facts = {"before": before["current"], "after": schema.head(), "changed": changed}
            record(session, caller, "schema.migrate", "schema", **facts)
        return changed

    async def rebuild(self, caller: Identity) -> None:
        """Drop everything and make it anew, but for platforms and credentials. Development only."""
        from domain.migrations import upgrade, wipe

        if not self.settings.development:
            raise NotInDevelopment("Rebuilding deletes all data: only a service with CAIRN_DEVELOPMENT=true does it.")
        url = self._admin_url()
        async with self.database.transaction() as session:
            kept = await schema.clear_but_identities(session)
        await asyncio.to_thread(wipe, url)
        await asyncio.to_thread(upgrade, url)
        async with self.database.transaction() as session:
            await schema.restore_identities(session, kept)
            record(session, caller, "schema.rebuild", "schema")
        await self.deploy(caller)

    def _admin_url(self) -> str:
        if self.settings.admin_url is None:
            raise NotConfigured(
                "This service has no administrator's connection. Set CAIRN_ADMIN_URL, or run "
                "`python -m domain.migrations` as an administrator."
            )
        return self.settings.admin_url.get_secret_value()
