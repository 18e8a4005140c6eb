"""Lists of assets and versions, a page at a time, always in the same order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ScalarSelect, Select, func, select, text, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from domain.models import ArtifactRow, Asset, AssetVersion, Platform, Revision
from domain.models.assets import STANDINGS
from domain.repositories.assets import IS_SERVED, partners_only
from domain.repositories.looks import Listed, by_index
from domain.rules import paging

FEW = 500  # assets of the same references that a query may name one by one


def _latest(asset: type[Asset]) -> ScalarSelect[int | None]:
    """The asset's latest served ordinal."""
    latest = select(func.max(AssetVersion.ordinal)).where(AssetVersion.asset_id == asset.asset_id, IS_SERVED)
    return latest.scalar_subquery()


@dataclass(frozen=True)
class AssetLists:
    session: AsyncSession

    async def one(self, asset_id: str) -> tuple[Asset, int | None] | None:
        """The asset, deleted or not, with its latest served ordinal."""
        row = (await self.session.execute(select(Asset, _latest(Asset)).where(Asset.asset_id == asset_id))).first()
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
    ) -> Listed[tuple[Asset, int | None], str]:
        """Assets with their latest served ordinal. A page looks at so many and no more, as those of `looks`."""
        await by_index(self.session)
        looked_at = select(Asset).where(Asset.asset_id > after).order_by(Asset.asset_id).limit(paging.LOOK)
        if platform_id is not None:
            looked_at = looked_at.where(Asset.platform_id == platform_id)
        of_refs = await self._few_of(refs) if refs else None
        if of_refs is not None:
            looked_at = looked_at.where(Asset.asset_id.in_(of_refs))
        shown = aliased(Asset, looked_at.subquery())
        query = select(shown, _latest(shown)).order_by(shown.asset_id).limit(limit)
        if refs:
            query = query.where(shown.refs.contains(dict(refs)))
        if clearance is not None:
            query = query.where(shown.clearance == clearance)
        if not deleted:
            query = query.where(shown.deleted_at.is_(None))
        rows = [(asset, ordinal) for asset, ordinal in await self.session.execute(query)]
        if len(rows) == limit:
            return Listed(rows, rows[-1][0].asset_id)
        ended = looked_at.with_only_columns(Asset.asset_id).offset(paging.LOOK - 1).limit(1)
        return Listed(rows, await self.session.scalar(ended))

    async def _few_of(self, refs: Mapping[str, str]) -> Sequence[str] | None:
        """The assets of these references, by the index of those; None where they are too many to be named.

        Asked for by itself: as a condition of the page, the planner would follow the page's order through all assets.
        """
        query = select(Asset.asset_id).where(Asset.refs.contains(dict(refs))).limit(FEW + 1)
        found = (await self.session.scalars(query)).all()
        return found if len(found) <= FEW else None

    async def versions(
        self,
        *,
        asset_id: str | None = None,
        approval: str | None = None,
        processing: str | None = None,
        deleted: bool = False,
        after: tuple[str, int] = ("", -1),
        limit: int = 100,
    ) -> Listed[tuple[AssetVersion, Revision], tuple[str, int]]:
        """Versions with their newest revision. A page looks at so many and no more, as those of `looks`.

        What waits for a decision is few among many: it has an index.
        """
        await by_index(self.session)
        is_queue = (approval, processing, deleted, asset_id) == ("pending_review", "completed", False, None)
        looked_at = _waiting() if is_queue else select(AssetVersion)
        looked_at = (
            looked_at.where(tuple_(AssetVersion.asset_id, AssetVersion.ordinal) > tuple_(*after))
            .order_by(AssetVersion.asset_id, AssetVersion.ordinal)
            .limit(paging.LOOK)
        )
        if asset_id is not None:
            looked_at = looked_at.where(AssetVersion.asset_id == asset_id)
        shown = aliased(AssetVersion, looked_at.subquery())
        newest = (
            (Revision.asset_id == shown.asset_id)
            & (Revision.ordinal == shown.ordinal)
            & (Revision.revision == shown.newest_revision)
        )
        query = select(shown, Revision).join(Revision, newest).order_by(shown.asset_id, shown.ordinal).limit(limit)
        if asset_id is None:  # of all assets, those that somebody may decide about
            query = query.join(Asset, Asset.asset_id == shown.asset_id).where(partners_only(Asset.platform_id))
        if approval is not None:
            query = query.where(Revision.approval == approval)
        if processing is not None:
            query = query.where(Revision.processing == processing)
        if not deleted:
            query = query.where(shown.deleted_at.is_(None))
        rows = [(version, revision) for version, revision in await self.session.execute(query)]
        if len(rows) == limit:
            return Listed(rows, (rows[-1][0].asset_id, rows[-1][0].ordinal))
        ended = looked_at.with_only_columns(AssetVersion.asset_id, AssetVersion.ordinal).offset(paging.LOOK - 1)
        row = (await self.session.execute(ended.limit(1))).first()
        return Listed(rows, None if row is None else (row[0], row[1]))

    async def revisions(self, asset_id: str, ordinal: int) -> Sequence[Revision]:
        query = select(Revision).where(Revision.asset_id == asset_id, Revision.ordinal == ordinal)
        return (await self.session.scalars(query.order_by(Revision.revision))).all()

    async def artifacts(self, asset_id: str, ordinal: int, after: int, limit: int) -> Sequence[ArtifactRow]:
        """The files of all revisions of a version, in the order they were recorded."""
        query = select(ArtifactRow).where(
            ArtifactRow.asset_id == asset_id, ArtifactRow.ordinal == ordinal, ArtifactRow.artifact_id > after
        )
        return (await self.session.scalars(query.order_by(ArtifactRow.artifact_id).limit(limit))).all()

    async def platform(self, platform_id: str) -> Platform | None:
        return await self.session.get(Platform, platform_id)

    async def platforms(self) -> Sequence[Platform]:
        """The partners' ones."""
        query = select(Platform).where(partners_only(Platform.platform_id)).order_by(Platform.platform_id)
        return (await self.session.scalars(query)).all()


def _waiting() -> Select[AssetVersion]:
    """The versions that wait for a decision, by the index of them."""
    place = (Revision.asset_id == AssetVersion.asset_id) & (Revision.ordinal == AssetVersion.ordinal)
    return select(AssetVersion).join(Revision, place).where(text(STANDINGS["waiting"]))
