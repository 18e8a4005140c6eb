"""Commands: synchronous, idempotent, never a queue or a worker. Each is a method; `run` finds it by its public name."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts import commands as words
from domain.contracts.commands import CommandDone
from domain.contracts.control import Pause, Resume
from domain.errors import (
    DomainError,
    ExternalUnavailable,
    Forbidden,
    InvalidCommand,
    NotConfigured,
    NotFound,
    NotPublishable,
)
from domain.models import Asset
from domain.repositories import external
from domain.repositories.exports import Exports
from domain.repositories.layers import Layers
from domain.repositories.platforms import Platforms
from domain.repositories.runs import Runs
from domain.rules.exports import exposed
from domain.rules.quorum import eased_fields
from domain.rules.scratch import is_scratch
from domain.security import Identity
from domain.services.assembly import served_catalogue
from domain.services.lookups import locked_asset
from domain.services.operations.audit import record
from domain.services.operations.bootstrap import Bootstrap
from domain.services.publication.deciding import FilesRead, decided
from domain.services.publication.external_metadata import OutsideWords
from domain.services.publication.layers import LayerDesk
from domain.services.runs.control import Control
from domain.state import Service

Result = TypeVar("Result")


@dataclass(frozen=True)
class Commands:
    """Each command opens its own transactions: some talk to other systems between two of them."""

    service: Service
    caller: Identity

    async def run(self, name: str, parameters: dict[str, Any]) -> CommandDone:
        """Do the command of this name."""
        if name not in COMMANDS:
            raise NotFound(f"There is no command {name!r}. Known are: {', '.join(COMMANDS)}.")
        model, method = COMMANDS[name]
        try:
            given = model.model_validate(parameters)
        except ValidationError as error:
            faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
            raise InvalidCommand("; ".join(faults) + ".", faults=faults) from error
        changed, details = await method(self, given)
        return CommandDone(command=name, changed=changed, details=details)

    async def publish_metadata(self, given: words.PublishMetadata) -> tuple[bool, dict[str, Any]]:
        async def act(session: AsyncSession, files: FilesRead) -> bool:
            await locked_asset(session, given.asset_id)
            if given.metadata is not None:
                await Layers(session).keep(given.asset_id, given.metadata.model_dump(), self.caller.client_id)
            changed = await self._desk(session, files).publish(given.asset_id, self.caller.client_id)
            self._audit(session, "metadata.publish", f"asset/{given.asset_id}", changed=changed)
            return changed

        return await self._decide(act), {"asset_id": given.asset_id}

    async def unpublish_metadata(self, given: words.OneAsset) -> tuple[bool, dict[str, Any]]:
        """Show the catalogue's own words again; external ones are removed too, later if that database is away."""

        async def act(session: AsyncSession, files: FilesRead) -> tuple[bool, bool]:
            row = await Layers(session).published(given.asset_id)
            is_outside = row is not None and row.external_at is not None
            changed = await self._desk(session, files).unpublish(given.asset_id)
            self._audit(session, "metadata.unpublish", f"asset/{given.asset_id}", changed=changed)
            return changed, is_outside

        changed, is_outside = await self._decide(act)
        url = self.service.settings.external_database_url
        if is_outside and url is not None:
            with contextlib.suppress(external.ForeignDatabaseFailed):
                await OutsideWords(self.service.database, url.get_secret_value()).recall()
        return changed, {"asset_id": given.asset_id}

    async def publish_external(self, given: words.OneAsset) -> tuple[bool, dict[str, Any]]:
        """Copy the published words of a public, served asset into the external database.

        That they may stand there is noted first; no transaction of ours is open while they go. Where they may not any
        more (after metadata.unpublish, a lower clearance, the unpublishing of the last version),
        `domain/loops/external_metadata.py` has them removed: within seconds, or as soon as that database answers.
        """
        url = self.service.settings.external_database_url
        if url is None:
            raise NotConfigured("There is no external database. Set CAIRN_EXTERNAL_DATABASE_URL.")
        async with self.service.database.transaction() as session:
            content = await self._words_to_publish_outside(session, await locked_asset(session, given.asset_id))
        try:
            changed = await external.put_layer(url.get_secret_value(), given.asset_id, content)
        except external.ForeignDatabaseFailed as error:
            raise ExternalUnavailable(f"The external database did not take it ({error}). Try again later.") from error
        async with self.service.database.transaction() as session:
            self._audit(session, "metadata.publish_external", f"asset/{given.asset_id}", changed=changed)
        return changed, {"asset_id": given.asset_id}

    async def _words_to_publish_outside(self, session: AsyncSession, asset: Asset) -> dict[str, Any]:
        """Return the published words and note that they are outside; refuse words of an asset that is not public."""
        row = await Layers(session).published(asset.asset_id)
        if row is None:
            raise NotPublishable("Only published metadata goes out. Run metadata.publish first.")
        if not exposed(await Exports(session).publicity(asset)):
            raise NotPublishable(
                f"Only words about what everybody may read go out, and asset {asset.asset_id} is cleared as "
                f"{asset.clearance!r}. Have a version of it served and its clearance raised to 'public' first."
            )
        row.external_at = func.clock_timestamp()
        return row.content

    async def reindex(self, given: words.Reindex) -> tuple[bool, dict[str, Any]]:
        """Write the catalogue's items anew. Of many assets, one that fails is reported and holds up no other."""
        async with self.service.database.transaction() as session:
            listed = [given.asset_id] if given.asset_id else await Layers(session).assets(given.after, given.limit)
        items, failed = 0, list[dict[str, str]]()
        for asset_id in listed:
            try:
                items += await self._rebuild(asset_id)
            except DomainError as error:
                if given.asset_id:
                    raise
                failed.append({"asset_id": asset_id, "code": error.code})
        assets = len(listed) - len(failed)
        async with self.service.database.transaction() as session:
            subject = f"asset/{given.asset_id}" if given.asset_id else "catalogue"
            self._audit(session, "asset.reindex", subject, assets=assets, items=items, failed=len(failed))
        following = listed[-1] if not given.asset_id and len(listed) == given.limit else None
        return True, {"assets": assets, "items": items, "failed": failed, "next": following}

    async def _rebuild(self, asset_id: str) -> int:
        """Rebuild one asset in a transaction of its own, so that readers wait for one asset at most."""

        async def act(session: AsyncSession, files: FilesRead) -> int:
            return await self._desk(session, files).rebuild(await locked_asset(session, asset_id))

        return await self._decide(act)

    async def migrate(self, _given: words.Nothing) -> tuple[bool, dict[str, Any]]:
        made = Bootstrap(self.service.database, self.service.settings, self.service.library)
        return await made.migrate(self.caller), {}

    async def invalidate(self, given: words.Invalidate) -> tuple[bool, dict[str, Any]]:
        async with self.service.database.transaction() as session:
            await Layers(session).invalidate(given.cache)
            self._audit(session, "cache.invalidate", f"cache/{given.cache}")
        return True, {"cache": given.cache}

    async def register_platform(self, given: words.RegisterPlatform) -> tuple[bool, dict[str, Any]]:
        async with self.service.database.transaction() as session:
            if is_scratch(given.platform_id):
                raise InvalidCommand(
                    f"Platform id {given.platform_id!r} is reserved for what operators' own runs make. Choose another."
                )
            differences = await Platforms(session).register(given.row())
            if differences is None:
                raise InvalidCommand(
                    f"Platform {given.platform_id} has assets that are named by its references as they are. "
                    f"Register another platform for other required_refs."
                )
            if self.caller.role != "admin" and (eased := eased_fields(differences)):
                raise Forbidden(
                    f"Platform {given.platform_id} would ask for less than it does: {', '.join(eased)}. Only admins "
                    "ease what keeps one person from deciding alone."
                )
            await Layers(session).invalidate("platforms")
            facts = {"changed": bool(differences), "fields": differences}
            self._audit(session, "platform.register", f"platform/{given.platform_id}", **facts)
        return bool(differences), {"platform_id": given.platform_id}

    async def weigh_platform(self, given: words.WeighPlatform) -> tuple[bool, dict[str, Any]]:
        changes = given.model_dump(exclude={"platform_id"}, exclude_none=True)
        async with self.service.database.transaction() as session:
            differences = await Platforms(session).change(given.platform_id, changes)
            if differences is None:
                raise NotFound(f"There is no platform {given.platform_id!r}.")
            self._audit(session, "platform.weigh", f"platform/{given.platform_id}", fields=differences)
            Runs(session).wake_relays()
        return bool(differences), {"platform_id": given.platform_id}

    async def pause(self, given: Pause) -> tuple[bool, dict[str, Any]]:
        async with self.service.database.transaction() as session:
            await Control(session, self.service.definitions, self.caller).pause(given)
        return True, {}

    async def resume(self, given: Resume) -> tuple[bool, dict[str, Any]]:
        async with self.service.database.transaction() as session:
            return await Control(session, self.service.definitions, self.caller).resume(given), {}

    def _audit(self, session: AsyncSession, command: str, subject: str, **details: Any) -> None:
        record(session, self.caller, command, subject, **details)

    def _desk(self, session: AsyncSession, files: FilesRead) -> LayerDesk:
        return LayerDesk(session, served_catalogue(session, self.service, files))

    async def _decide(self, act: Callable[[AsyncSession, FilesRead], Awaitable[Result]]) -> Result:
        return await decided(self.service.database, self.service.file_checks, act)


Method = Callable[[Commands, Any], Awaitable[tuple[bool, dict[str, Any]]]]
COMMANDS: Mapping[str, tuple[type[BaseModel], Method]] = MappingProxyType(
    {
        "metadata.publish": (words.PublishMetadata, Commands.publish_metadata),
        "metadata.unpublish": (words.OneAsset, Commands.unpublish_metadata),
        "metadata.publish_external": (words.OneAsset, Commands.publish_external),
        "asset.reindex": (words.Reindex, Commands.reindex),
        "schema.migrate": (words.Nothing, Commands.migrate),
        "cache.invalidate": (words.Invalidate, Commands.invalidate),
        "platform.register": (words.RegisterPlatform, Commands.register_platform),
        "platform.weigh": (words.WeighPlatform, Commands.weigh_platform),
        "pause": (Pause, Commands.pause),
        "resume": (Resume, Commands.resume),
    }
)
