"""Lists of assets and versions, a page at a time, always in the same order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import Artifact, Asset, AssetVersion, Platform, Revision
from domain.repositories.assets import partners_only

LATEST = (
    select(func.max(AssetVersion.ordinal))
    .where(
        AssetVersion.asset_id == Asset.asset_id,
        AssetVersion.served_revision.is_not(None),
        AssetVersion.deleted_at.is_(None),
    )
    .scalar_subquery()
)


@dataclass(frozen=True)
class AssetLists:
    session: AsyncSession

    async def one(self, asset_id: str) -> tuple[Asset, int | None] | None:
        """The asset, deleted or not, with its latest served ordinal."""
        row = (await self.session.execute(select(Asset, LATEST).where(Asset.asset_id == asset_id))).first()
        return None if row is None else (row[0], row[1])

    async def assets(
        self,
        *,
        platform_id: str | None,
        refs: Mapping[str, str],
        clearance: str | None,
        deleted: bool,
        after: str,
        limit: int,
    ) -> Sequence[tuple[Asset, int | None]]:
        """Assets with their latest served ordinal."""
        query = select(Asset, LATEST).where(Asset.asset_id > after).order_by(Asset.asset_id).limit(limit)
        if platform_id is not None:
            query = query.where(Asset.platform_id == platform_id)
        if refs:
            query = query.where(Asset.refs.contains(dict(refs)))
        if clearance is not None:
            query = query.where(Asset.clearance == clearance)
        if not deleted:
            query = query.where(Asset.deleted_at.is_(None))
        return [(asset, ordinal) for asset, ordinal in await self.session.execute(query)]

    async def versions(
        self,
        *,
        asset_id: str | None = None,
        approval: str | None = None,
        processing: str | None = None,
        deleted: bool = False,
        after: tuple[str, int] = ("", -1),
        limit: int = 100,
    ) -> Sequence[tuple[AssetVersion, Revision]]:
        """Versions with their newest revision."""
        query = (
            select(AssetVersion, Revision)
            .join(
                Revision,
                (Revision.asset_id == AssetVersion.asset_id)
                & (Revision.ordinal == AssetVersion.ordinal)
                & (Revision.revision == AssetVersion.newest_revision),
            )
            .where(tuple_(AssetVersion.asset_id, AssetVersion.ordinal) > tuple_(*after))
            .order_by(AssetVersion.asset_id, AssetVersion.ordinal)
            .limit(limit)
        )
        if asset_id is not None:
            query = query.where(AssetVersion.asset_id == asset_id)
        else:  # of all assets, those that somebody may decide about
            of_partners = select(Asset.asset_id).where(partners_only(Asset.platform_id))
            query = query.where(AssetVersion.asset_id.in_(of_partners))
        if approval is not None:
            query = query.where(Revision.approval == approval)
        if processing is not None:
            query = query.where(Revision.processing == processing)
        if not deleted:
            query = query.where(AssetVersion.deleted_at.is_(None))
        return [(version, revision) for version, revision in await self.session.execute(query)]

    async def revisions(self, asset_id: str, ordinal: int) -> Sequence[Revision]:
        query = select(Revision).where(Revision.asset_id == asset_id, Revision.ordinal == ordinal)
        return (await self.session.scalars(query.order_by(Revision.revision))).all()

    async def artifacts(self, asset_id: str, ordinal: int, after: int, limit: int) -> Sequence[Artifact]:
        """The files of all revisions of a version, in the order they were recorded."""
        query = select(Artifact).where(
            Artifact.asset_id == asset_id, Artifact.ordinal == ordinal, Artifact.artifact_id > after
        )
        return (await self.session.scalars(query.order_by(Artifact.artifact_id).limit(limit))).all()

    async def platform(self, platform_id: str) -> Platform | None:
        return await self.session.get(Platform, platform_id)

    async def platforms(self) -> Sequence[Platform]:
        """The partners' ones."""
        query = select(Platform).where(partners_only(Platform.platform_id)).order_by(Platform.platform_id)
        return (await self.session.scalars(query)).all()
