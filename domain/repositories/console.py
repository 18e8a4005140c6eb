"""What the console's pages list, and the marks that tell whether a page still shows what is stored. Nothing writes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, TextClause, and_, cast, func, literal, or_, select, text
from sqlalchemy.dialects.postgresql import JSONPATH
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import ArtifactRow, Asset, AssetVersion, AuditEntry, Request, Revision
from domain.models.assets import STANDINGS
from domain.repositories.looks import Listed, Look, by_index
from domain.rules.console import Filter, Shown
from domain.rules.lifecycle import Approval
from domain.rules.paging import Position

LAST = "\U0010ffff"  # behind every letter
MOST_NAMED = 500
SHORTEST_ID = 8  # letters of an id, of which there are so many that hardly two begin with the same
# What an index knows of each list. Of what is approved there is so much that a look among all finds it.
_STANDING: dict[Shown, str] = {
    "waiting": STANDINGS["waiting"],
    "working": STANDINGS["working"],
    "failed": STANDINGS["ended_badly"],
    "rejected": STANDINGS["rejected"],
    "approved": STANDINGS["listed"],
    "all": STANDINGS["listed"],
}
# Each is one short text that differs once anything that its page shows has changed.
MARKS = {
    "queue": """
        select concat_ws(',', (select max(event_id) from app.events), (select max(audit_id) from app.audit),
            (select max(expires_at) from app.approvals where expires_at <= statement_timestamp()))
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
class QueueLine:
    """One line of the queue."""

    asset: Asset
    version: AssetVersion
    revision: Revision
    client_id: str | None


@dataclass(frozen=True)
class ConsoleLists:
    session: AsyncSession

    async def queue(self, wanted: Filter, after: Position | None, limit: int) -> Listed[QueueLine, Position]:
        """Newest revisions of versions with their assets and who sent them; newest first.

        Words are looked for as all else is, among so many of the newest. What they name exactly is found beside that,
        however old it is.
        """
        await by_index(self.session)
        found = await self._queue(wanted, after, limit)
        named = await self._named(wanted.words) if wanted.words else []
        if not named:
            return found
        beside = await self._queue(wanted, after, limit, named)
        lines = {each.revision.request_id: each for each in (*found.rows, *beside.rows)}
        rows = sorted(lines.values(), key=lambda each: _place(each).sorted, reverse=True)[:limit]
        ends = [each for each in (found.next, beside.next) if each is not None]
        last = _place(rows[-1]) if len(rows) == limit else max(ends, key=lambda each: each.sorted, default=None)
        return Listed(rows, last)

    async def _queue(
        self, wanted: Filter, after: Position | None, limit: int, named: Sequence[str] | None = None
    ) -> Listed[QueueLine, Position]:
        conditions: list[ColumnElement[bool] | TextClause] = [
            text(_STANDING[wanted.shown]),
            *([] if named is None else [Revision.asset_id.in_(named)]),
        ]
        look = Look(Revision, Revision.created_at, Revision.request_id, after, conditions)
        shown = look.shown()
        place = and_(AssetVersion.asset_id == shown.asset_id, AssetVersion.ordinal == shown.ordinal)
        query = (
            select(Asset, AssetVersion, shown, Request.client_id)
            .join(Asset, Asset.asset_id == shown.asset_id)
            .join(AssetVersion, place)
            .join(Request, Request.request_id == shown.request_id)
            .order_by(shown.created_at.desc(), shown.request_id.desc())
            .limit(limit)
        )
        if wanted.platform:
            query = query.where(Asset.platform_id == wanted.platform)
        if wanted.data_type:
            query = query.where(Asset.data_type == wanted.data_type)
        if wanted.shown == "approved":
            query = query.where(shown.approval == Approval.APPROVED)
        if wanted.words and named is None:
            query = query.where(_says(wanted.words))
        rows = [QueueLine(*row) for row in await self.session.execute(query)]
        return Listed(rows, await look.next(self.session, rows, limit, _place(rows[-1]) if rows else None))

    async def _named(self, words: str) -> Sequence[str]:
        """The assets whose id begins so, or one of whose references is this; none where these are too many to help."""
        value = cast(literal(f"$.* ? (@ == {json.dumps(words)})"), JSONPATH)
        by_reference = select(Asset.asset_id).where(Asset.refs.op("@?")(value)).limit(MOST_NAMED)
        by_id = select(Asset.asset_id).where(Asset.asset_id >= words, Asset.asset_id < words + LAST).limit(MOST_NAMED)
        named = {*await self.session.scalars(by_reference)}
        if len(words) >= SHORTEST_ID:
            named |= {*await self.session.scalars(by_id)}
        return sorted(named) if len(named) < MOST_NAMED else []

    async def waiting(self, up_to: int) -> int:
        """How many versions wait for a decision, counted no further than needed."""
        found = select(Revision.request_id).where(text(STANDINGS["waiting"])).limit(up_to)
        return int(await self.session.scalar(select(func.count()).select_from(found.subquery())) or 0)

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
        query = select(ArtifactRow.name).where(
            ArtifactRow.asset_id == asset_id,
            ArtifactRow.ordinal == ordinal,
            ArtifactRow.revision == revision,
            ArtifactRow.role == "stac_item",
            ArtifactRow.zone == "silver",
        )
        name: str | None = await self.session.scalar(query.order_by(ArtifactRow.artifact_id.desc()).limit(1))
        return name

    async def mark(self, page: str, asset_id: str = "", ordinal: int = 0) -> str:
        """What the page of this name shows now, in a word."""
        values = {"asset_id": asset_id, "ordinal": ordinal}
        wanted = {name: value for name, value in values.items() if f":{name}" in MARKS[page]}
        return str(await self.session.scalar(text(MARKS[page]), wanted) or "")


def _place(line: QueueLine) -> Position:
    return Position(line.revision.created_at, line.revision.request_id)


def _says(words: str) -> ColumnElement[bool]:
    """The text occurs in the version's label or the asset's references."""
    return or_(
        AssetVersion.label.icontains(words, autoescape=True),
        func.cast(Asset.refs, Asset.asset_id.type).icontains(words, autoescape=True),
    )
