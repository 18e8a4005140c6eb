"""Exports: what is out, what may go out, and the addresses that a finished export gives to a version's artifacts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import func, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.artifacts import STAGED_ITEMS, STAGED_WORDS
from domain.models import ArtifactRow, Asset, Export
from domain.repositories.assets import Assets
from domain.rules.exports import Publicity, Served

# Copies are told apart by what they hold, and count only below the destination that this export was given.
PUBLISH = text("""
    update app.artifacts original set external_blob_path = copy.name, adf_run_id = cast(:adf_run_id as text)
    from app.exports e join app.runs r using (request_id) join app.artifacts copy on copy.run_id = r.run_id
    where e.request_id = :request_id and e.withdrawn_at is null
        and copy.zone = 'external' and starts_with(copy.name, e.destination || '/')
        and (original.asset_id, original.ordinal, original.revision) = (e.asset_id, e.ordinal, e.revision)
        and original.zone = 'silver' and (original.role, original.sha256) = (copy.role, copy.sha256)
""")


@dataclass(frozen=True)
class Exports:
    session: AsyncSession

    async def publicity(self, asset: Asset) -> Publicity:
        """How public the asset is now. Its lock is held."""
        served = await Assets(self.session).served(asset.asset_id)
        return Publicity(asset.clearance, asset.exposure, asset.deleted_at is not None, served)  # type: ignore[arg-type]

    async def live(self, asset_id: str) -> dict[Served, Export]:
        """What is out or on its way."""
        query = select(Export).where(Export.asset_id == asset_id, Export.withdrawn_at.is_(None))
        return {(export.ordinal, export.revision): export for export in await self.session.scalars(query)}

    async def artifacts(self, asset_id: str, revision: Served) -> Sequence[ArtifactRow]:
        """A revision's files that may go out. What is staged for the catalogue names internal places and may not."""
        query = select(ArtifactRow).where(
            ArtifactRow.asset_id == asset_id,
            ArtifactRow.ordinal == revision[0],
            ArtifactRow.revision == revision[1],
            ArtifactRow.zone == "silver",
            ArtifactRow.role.not_in((*STAGED_ITEMS, STAGED_WORDS)),
        )
        return (await self.session.scalars(query.order_by(ArtifactRow.artifact_id))).all()

    def add(self, request_id: UUID, asset_id: str, revision: Served, destination: str) -> None:
        ordinal, number = revision
        self.session.add(
            Export(request_id=request_id, asset_id=asset_id, ordinal=ordinal, revision=number, destination=destination)
        )

    async def publish(self, request_id: UUID, outputs: Mapping[str, Any]) -> None:
        """Give the version's artifacts the addresses of their copies, unless this is no export or was withdrawn.

        The caller holds the lock of the export's run; a withdrawal waits for it before it takes addresses away.
        """
        await self.session.flush()
        pipeline = outputs.get("adf_run_id")  # any internal run comes here, with whatever it returns
        values = {"request_id": request_id, "adf_run_id": pipeline if isinstance(pipeline, str) else None}
        await self.session.execute(PUBLISH, values)

    async def withdraw(self, export: Export, withdrawal_id: UUID) -> None:
        """Take the addresses away. The export's run is over: it was cancelled, or had ended."""
        export.withdrawn_at = func.clock_timestamp()
        export.withdrawal_id = withdrawal_id
        addresses = update(ArtifactRow).where(
            ArtifactRow.asset_id == export.asset_id,
            ArtifactRow.ordinal == export.ordinal,
            ArtifactRow.revision == export.revision,
        )
        await self.session.execute(addresses.values(external_blob_path=None, adf_run_id=None))
