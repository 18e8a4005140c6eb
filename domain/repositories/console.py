"""What the console's pages list, and the marks that tell whether a page still shows what is stored. Nothing writes."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, func, or_, select, text, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import Artifact, Asset, AssetVersion, AuditEntry, Request, Revision
from domain.repositories.assets import partners_only
from domain.rules.console import Filter, Shown
from domain.rules.lifecycle import Approval, RequestState
from domain.rules.paging import Place

NEWEST = and_(
    Revision.asset_id == AssetVersion.asset_id,
    Revision.ordinal == AssetVersion.ordinal,
    Revision.revision == AssetVersion.newest_revision,
)
# Each is one short text that differs once anything that its page shows has changed.
MARKS = {
    "queue": """
        select concat_ws(',', (select max(event_id) from app.events), (select max(audit_id) from app.audit),
            (select max(expires_at) from app.approvals where expires_at <= clock_timestamp()))
    """,
    "audit": "select coalesce(max(audit_id), 0)::text from app.audit",
    "callbacks": """
        select md5(concat_ws(',', (select max(delivery_id) from app.callback_deliveries),
            (select max(event_id) from app.events), (select max(audit_id) from app.audit),
            (select count(*) from app.callbacks where state = 'sending')))
    """,
    "asset": """
        select md5(string_agg(line, ';' order by line)) from (
            select concat_ws(',', lock_version, clearance, exposure, deleted_at) as line
            from app.assets where asset_id = :asset_id
            union all
            select concat_ws(',', v.ordinal, v.lock_version, v.deleted_at, v.served_revision, r.revision, r.approval,
                r.processing)
            from app.asset_versions v join app.revisions r using (asset_id, ordinal) where v.asset_id = :asset_id
            union all
            select concat_ws(',', kept.updated_at, shown.published_at, shown.content) from app.layer_metadata kept
            left join app.layer_catalog shown using (asset_id) where kept.asset_id = :asset_id
        ) lines
    """,
    "version": """
        with requested as (
            select distinct request_id from app.revisions where asset_id = :asset_id and ordinal = :ordinal
        )
        select md5(string_agg(line, ';' order by line)) from (
            select concat_ws(',', lock_version, clearance, exposure, deleted_at) as line
            from app.assets where asset_id = :asset_id
            union all
            select concat_ws(',', v.ordinal, v.lock_version, v.deleted_at, v.served_revision) from app.asset_versions v
            where v.asset_id = :asset_id
            union all
            select concat_ws(',', r.revision, r.approval, r.processing) from app.revisions r
            where r.asset_id = :asset_id and r.ordinal = :ordinal
            union all
            select concat_ws(',', approval_id, withdrawn_at, expires_at <= clock_timestamp()) from app.approvals
            where asset_id = :asset_id and ordinal = :ordinal
            union all
            select concat_ws(',', run.run_id, run.state, run.reason, n.node_id, n.state, n.tries, n.fraction,
                n.message, n.items_total, n.items_done, n.items_failed)
            from requested join app.runs run using (request_id) left join app.run_nodes n using (run_id)
            union all
            select max(e.event_id)::text from requested join app.events e using (request_id)
            union all
            select 'told ' || max(d.delivery_id) from requested join app.callbacks c using (request_id)
            join app.callback_deliveries d using (callback_id)
            union all
            select concat_ws(',', e.request_id, run.state) from app.exports e join app.runs run using (request_id)
            where e.asset_id = :asset_id and e.ordinal = :ordinal and e.withdrawn_at is null
            union all
            select concat_ws(',', p.approvals_required, p.approval_days) from app.assets join app.platforms p
            using (platform_id) where asset_id = :asset_id
            union all
            select concat_ws(',', kept.updated_at, shown.published_at, shown.content) from app.layer_metadata kept
            left join app.layer_catalog shown using (asset_id) where kept.asset_id = :asset_id
        ) lines
    """,
}


@dataclass(frozen=True)
class Listed:
    """One line of the queue."""

    asset: Asset
    version: AssetVersion
    revision: Revision
    client_id: str | None


@dataclass(frozen=True)
class ConsoleLists:
    session: AsyncSession

    async def queue(self, wanted: Filter, after: Place | None, limit: int) -> Sequence[Listed]:
        """Newest revisions of versions with their assets and who sent them; newest first."""
        query = (
            select(Asset, AssetVersion, Revision, Request.client_id)
            .join(AssetVersion, AssetVersion.asset_id == Asset.asset_id)
            .join(Revision, NEWEST)
            .join(Request, Request.request_id == Revision.request_id)
            .where(AssetVersion.deleted_at.is_(None), Asset.deleted_at.is_(None), partners_only(Asset.platform_id))
            .order_by(Revision.created_at.desc(), Revision.request_id.desc())
            .limit(limit)
        )
        if wanted.platform:
            query = query.where(Asset.platform_id == wanted.platform)
        if wanted.data_type:
            query = query.where(Asset.data_type == wanted.data_type)
        if wanted.words:
            query = query.where(_says(wanted.words))
        if after is not None:
            query = query.where(tuple_(Revision.created_at, Revision.request_id) < tuple_(after.at, after.id))
        found = await self.session.execute(query.where(*_shown(wanted.shown)))
        return [Listed(*row) for row in found]

    async def waiting(self) -> int:
        """How many versions wait for a decision."""
        query = (
            select(func.count())
            .select_from(AssetVersion)
            .join(Asset, Asset.asset_id == AssetVersion.asset_id)
            .join(Revision, NEWEST)
            .where(AssetVersion.deleted_at.is_(None), partners_only(Asset.platform_id), *_shown("waiting"))
        )
        return int(await self.session.scalar(query) or 0)

    async def acts(self, subject: str, actor: str, before: int | None, limit: int) -> Sequence[AuditEntry]:
        """Entries of the audit, newest first."""
        query = select(AuditEntry).order_by(AuditEntry.audit_id.desc()).limit(limit)
        if subject:
            query = query.where(AuditEntry.subject.startswith(subject, autoescape=True))
        if actor:
            query = query.where(AuditEntry.actor == actor)
        if before is not None:
            query = query.where(AuditEntry.audit_id < before)
        return (await self.session.scalars(query)).all()

    async def item_name(self, asset_id: str, ordinal: int, revision: int) -> str | None:
        """Where the catalogue item of a revision lies in the silver zone."""
        query = select(Artifact.name).where(
            Artifact.asset_id == asset_id,
            Artifact.ordinal == ordinal,
            Artifact.revision == revision,
            Artifact.role == "stac_item",
            Artifact.zone == "silver",
        )
        name: str | None = await self.session.scalar(query.order_by(Artifact.artifact_id.desc()).limit(1))
        return name

    async def mark(self, page: str, asset_id: str = "", ordinal: int = 0) -> str:
        """What the page of this name shows now, in a word."""
        values = {"asset_id": asset_id, "ordinal": ordinal}
        wanted = {name: value for name, value in values.items() if f":{name}" in MARKS[page]}
        return str(await self.session.scalar(text(MARKS[page]), wanted) or "")


def _says(words: str) -> ColumnElement[bool]:
    """The text occurs in the version's label, the asset's references or its id."""
    return or_(
        AssetVersion.label.icontains(words, autoescape=True),
        func.cast(Asset.refs, Asset.asset_id.type).icontains(words, autoescape=True),
        Asset.asset_id.startswith(words, autoescape=True),
    )


def _shown(shown: Shown) -> list[ColumnElement[bool]]:
    match shown:
        case "waiting":
            return [Revision.approval == Approval.PENDING_REVIEW, Revision.processing == RequestState.COMPLETED]
        case "working":
            return [Revision.processing.in_((RequestState.PENDING, RequestState.PROCESSING))]
        case "failed":
            return [Revision.processing.in_((RequestState.FAILED, RequestState.CANCELLED))]
        case "rejected":
            return [Revision.approval == Approval.REJECTED]
        case "approved":
            return [Revision.approval == Approval.APPROVED]
        case "all":
            return []
