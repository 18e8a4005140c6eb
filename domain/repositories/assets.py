"""Assets, versions and revisions."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, and_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from domain.models import ArtifactRow, Asset, AssetVersion, Request, Revision
from domain.models.base import FRESH
from domain.rules import scratch
from domain.rules.clearance import ORDER, may_read
from domain.rules.control import RevisionFacts

# Of a version, whether one of its revisions is served.
IS_SERVED = and_(AssetVersion.deleted_at.is_(None), AssetVersion.served_revision.is_not(None))
EVERYBODYS = [level for level in ORDER if may_read(None, level, "", approved=True)]


def partners_only(platform_id: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """The rule of `rules.scratch` as a condition: lists of what is to be decided hold no scratch."""
    return platform_id != scratch.PLATFORM


def is_public() -> ColumnElement[bool]:
    """The rule of `rules.exports.exposed` as a condition on the asset: everybody may read something of it."""
    serves = select(AssetVersion.ordinal).where(AssetVersion.asset_id == Asset.asset_id, IS_SERVED)
    return and_(Asset.deleted_at.is_(None), Asset.clearance.in_(EVERYBODYS), serves.exists())


@dataclass(frozen=True)
class Assets:
    session: AsyncSession

    async def lock(self, asset_id: str) -> Asset | None:
        query = select(Asset).where(Asset.asset_id == asset_id, Asset.deleted_at.is_(None)).with_for_update()
        return await self.session.scalar(query.execution_options(**FRESH))

    async def lock_also_deleted(self, asset_id: str) -> Asset | None:
        query = select(Asset).where(Asset.asset_id == asset_id).with_for_update()
        return await self.session.scalar(query.execution_options(**FRESH))

    async def platform_of(self, asset_id: str) -> str | None:
        """Whose asset it is, deleted or not."""
        return await self.session.scalar(select(Asset.platform_id).where(Asset.asset_id == asset_id))

    async def taken(self, asset_id: str) -> Asset:
        """The asset that this transaction has locked, deleted or not."""
        return await self.session.get_one(Asset, asset_id)

    async def version(self, asset_id: str, ordinal: int) -> AssetVersion | None:
        version = await self.session.get(AssetVersion, (asset_id, ordinal))
        return version if version and version.deleted_at is None else None

    async def revision(self, asset_id: str, ordinal: int, revision: int) -> Revision | None:
        return await self.session.get(Revision, (asset_id, ordinal, revision))

    async def versions(self, asset_id: str) -> Sequence[AssetVersion]:
        """Every undeleted version, oldest first."""
        query = select(AssetVersion).where(AssetVersion.asset_id == asset_id, AssetVersion.deleted_at.is_(None))
        return (await self.session.scalars(query.order_by(AssetVersion.ordinal))).all()

    async def unlist(self, asset_id: str, ordinal: int) -> None:
        """Have lists show none of the version's revisions: it was deleted, or a newer one takes their place."""
        place = (Revision.asset_id == asset_id, Revision.ordinal == ordinal, Revision.is_listed)
        await self.session.execute(update(Revision).where(*place).values(is_listed=False))

    async def requesters(self, asset_id: str) -> frozenset[str]:
        """Who submitted what is served or staged of the asset."""
        query = (
            select(Request.client_id)
            .join(Revision, Revision.request_id == Request.request_id)
            .join(
                AssetVersion, (AssetVersion.asset_id == Revision.asset_id) & (AssetVersion.ordinal == Revision.ordinal)
            )
            .where(Revision.asset_id == asset_id, AssetVersion.deleted_at.is_(None))
        )
        return frozenset(name for name in await self.session.scalars(query) if name is not None)

    async def revision_facts(self, request: Request) -> RevisionFacts | None:
        """How the revision that the request made stands; None for requests that make none."""
        if request.asset_id is None or request.ordinal is None or request.revision is None:
            return None
        version = await self.version(request.asset_id, request.ordinal)
        revision = await self.revision(request.asset_id, request.ordinal, request.revision)
        newest = version is not None and version.newest_revision == request.revision
        return None if revision is None else RevisionFacts(revision.approval, newest, version is not None)

    async def served(self, asset_id: str) -> dict[int, int]:
        """The served revision of each version that has one, oldest version first."""
        query = select(AssetVersion.ordinal, AssetVersion.served_revision)
        query = query.where(AssetVersion.asset_id == asset_id, IS_SERVED).order_by(AssetVersion.ordinal)
        return {row[0]: row[1] or 0 for row in await self.session.execute(query)}

    async def served_revisions(self, asset_id: str) -> Sequence[Revision]:
        """The same as rows."""
        place = (AssetVersion.asset_id == Revision.asset_id) & (AssetVersion.ordinal == Revision.ordinal)
        query = select(Revision).join(AssetVersion, place & (AssetVersion.served_revision == Revision.revision))
        return (await self.session.scalars(query.where(AssetVersion.asset_id == asset_id, IS_SERVED))).all()

    async def request_of(self, asset_id: str, ordinal: int, revision: int) -> UUID | None:
        found = await self.revision(asset_id, ordinal, revision)
        return found.request_id if found else None

    async def artifacts(
        self, asset_id: str, ordinal: int, revision: int, roles: Sequence[str]
    ) -> Sequence[ArtifactRow]:
        """A revision's files in these roles, oldest first."""
        query = select(ArtifactRow).where(
            ArtifactRow.asset_id == asset_id,
            ArtifactRow.ordinal == ordinal,
            ArtifactRow.revision == revision,
            ArtifactRow.role.in_(roles),
        )
        return (await self.session.scalars(query.order_by(ArtifactRow.artifact_id))).all()

    async def files(self, asset_id: str, ordinal: int, revision: int) -> Sequence[ArtifactRow]:
        """All files of a revision in our own zone, oldest first."""
        query = select(ArtifactRow).where(
            ArtifactRow.asset_id == asset_id,
            ArtifactRow.ordinal == ordinal,
            ArtifactRow.revision == revision,
            ArtifactRow.zone == "silver",
        )
        return (await self.session.scalars(query.order_by(ArtifactRow.artifact_id))).all()
