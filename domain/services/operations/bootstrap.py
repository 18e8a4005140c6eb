"""The state of the database and its schema, for administrators: looked at, migrated, and in development made anew."""

import asyncio
from dataclasses import dataclass
from typing import Any

from domain.contracts.bootstrap import BootstrapDone, BootstrapStatus, PublishedDefinition, TableFacts
from domain.db import Database
from domain.errors import NotConfigured, NotInDevelopment
from domain.repositories import schema
from domain.repositories.published import Published
from domain.security import Identity
from domain.services.operations.audit import record
from domain.services.operations.workflow_definitions import Definitions
from domain.services.operations.workflow_library import Library
from domain.settings import DomainSettings


@dataclass(frozen=True)
class Bootstrap:
    database: Database
    settings: DomainSettings
    library: Library

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
            workflows=sorted(self.library.current.by_id),
            refused=dict(self.library.current.refused),
            may_migrate=self.settings.admin_url is not None,
            development=self.settings.development,
        )

    async def tables(self) -> list[TableFacts]:
        async with self.database.transaction() as session:
            return [TableFacts(**row) for row in await schema.tables(session)]

    def ddl(self) -> str:
        return schema.ddl()

    async def deploy(self, caller: Identity) -> BootstrapDone:
        """Publish the workflows of this process's folder as it is now. Published ones stay as they are."""
        before = _versions(self.library.current)
        after = await self.library.publish(caller)
        return BootstrapDone(
            done="deploy",
            changed=_versions(after) != before,
            details=sorted(after.by_id),
            workflows=[PublishedDefinition(**facts) for facts in _versions(after)],
            replaced=_replaced(before, _versions(after)),
            refused=dict(after.refused),
        )

    async def published(self) -> list[PublishedDefinition]:
        """Every definition that was ever published."""
        async with self.database.transaction() as session:
            return [PublishedDefinition(**row) for row in await Published(session).all()]

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


def _replaced(before: list[dict[str, str]], after: list[dict[str, str]]) -> dict[str, str]:
    """Versions that ran before, of workflows of which another version runs after."""
    now = {facts["workflow_id"]: facts["version"] for facts in after}
    ran = {facts["workflow_id"]: facts["version"] for facts in before}
    return {name: version for name, version in ran.items() if now.get(name, version) != version}


def _versions(known: Definitions) -> list[dict[str, str]]:
    """Which definition of each workflow runs."""
    plans = [known.by_id[name].plan for name in sorted(known.by_id)]
    return [{"workflow_id": plan.workflow_id, "version": str(plan.version), "digest": plan.digest} for plan in plans]
