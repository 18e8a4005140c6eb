"""Keeps the external zone to what everybody may read: queues runs that copy and remove, with the change that asks."""

from dataclasses import dataclass
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.artifacts import Artifact
from domain.models import Asset, Export
from domain.repositories.assets import Assets
from domain.repositories.exports import Exports
from domain.repositories.requests import Requests
from domain.rules.exports import ExportOrder, Served, orders
from domain.rules.places import copies_folder
from domain.security import Identity
from domain.services.operations.workflow_definitions import Definitions
from domain.services.runs.endings import RunLifecycle
from domain.services.runs.queueing import InternalRuns

WITHDRAWAL = "withdraw_external"


@dataclass(frozen=True)
class ExportDesk:
    """Brings an asset's exports to what its state asks for. `settle` is the use case."""

    session: AsyncSession
    definitions: Definitions
    workflow_id: str

    async def settle(self, asset: Asset, who: Identity) -> None:
        """Queue what the asset's state asks for. The asset is locked: decisions about its exports take turns."""
        await self.session.flush()
        exports = Exports(self.session)
        live = await exports.live(asset.asset_id)
        for revision, order in orders(live.keys(), await exports.publicity(asset)).items():
            match order:
                case ExportOrder.EXPORT:
                    await self._export(asset.asset_id, revision, who)
                case ExportOrder.WITHDRAW:
                    await self._withdraw(live[revision], who)
                case ExportOrder.NOTHING:
                    pass

    async def _export(self, asset_id: str, revision: Served, who: Identity) -> None:
        exports = Exports(self.session)
        artifacts = await exports.artifacts(asset_id, revision)
        if not artifacts:  # not every workflow makes files
            return
        ordinal, number = revision
        destination = copies_folder(asset_id, ordinal, number, uuid4().hex)
        inputs = {"destination": destination, "artifacts": [_words(artifact) for artifact in artifacts]}
        run = await InternalRuns(self.session, self.definitions).queue(self.workflow_id, inputs, who)
        exports.add(run.request_id, asset_id, revision, destination)
        await self._note("export.queued", asset_id, revision, who, destination)

    async def _withdraw(self, export: Export, who: Identity) -> None:
        """Withdraw an export, fencing it first: from here on it can give nobody an address."""
        request = await Requests(self.session).get(export.request_id)
        if request is not None:
            await RunLifecycle(self.session).cancel_request(request, actor=who.client_id)
        inputs = {"external_blob_path": export.destination}
        run = await InternalRuns(self.session, self.definitions).queue(WITHDRAWAL, inputs, who, priority="high")
        await Exports(self.session).withdraw(export, run.request_id)
        await self._note(
            "export.withdrawn", export.asset_id, (export.ordinal, export.revision), who, export.destination
        )

    async def _note(self, kind: str, asset_id: str, revision: Served, who: Identity, destination: str) -> None:
        """Add an event to the request that made the revision."""
        if request_id := await Assets(self.session).request_of(asset_id, *revision):
            Requests(self.session).add_event(request_id, kind, actor=who.client_id, external_blob_path=destination)


def _words(artifact: object) -> dict[str, object]:
    return Artifact.model_validate(artifact, from_attributes=True).model_dump(mode="json", exclude={"bbox"})
