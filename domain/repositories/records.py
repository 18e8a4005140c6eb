"""What operators read: runs with all that belongs to them, lists of runs, timelines. Nothing here writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import RowMapping, func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from domain.models import ArtifactRow, Attempt, AttemptFlowRun, Event, Request, Run, RunNode, WorkflowDefinition
from domain.repositories.looks import Listed, Look, by_index
from domain.rules.lifecycle import OPEN_REQUESTS, OPEN_RUNS, RequestState, RunState
from domain.rules.paging import Position

# One list of all that happened. Of a run whose nodes' history is kept no more, how each of them ended. Entries of one
# moment keep the order of their source's own numbers: `place` is the source and that number, written as a uuid so that
# a page can begin after it.
TIMELINE = text("""
    with the_runs as (select run_id, sequence from app.runs where request_id = :request_id),
    entries as (
        select at, kind, run_id, 1 as source, event_id as number,
            details || jsonb_build_object('actor', actor) as facts
        from app.events where request_id = :request_id
        union all
        select t.at, 'node.' || t.state, t.run_id, 2, t.transition_id,
            jsonb_build_object('node', t.node_id, 'handler', n.handler, 'pool', coalesce(t.pool, n.pool),
                'attempt', t.attempt, 'before', t.before, 'tries', t.tries, 'retries', nullif(t.retries, 0),
                'seconds', t.seconds, 'items', t.items, 'message', t.message,
                'code', t.problem ->> 'code', 'problem', t.problem ->> 'message')
        from the_runs r join app.node_transitions t using (run_id) left join app.run_nodes n using (run_id, node_id)
        union all
        select coalesce(n.finished_at, n.started_at), 'node.' || n.state, n.run_id, 2, r.sequence * 100000 + n.position,
            jsonb_build_object('node', n.node_id, 'handler', n.handler, 'pool', n.pool, 'tries', n.tries,
                'started_at', n.started_at, 'seconds', extract(epoch from n.finished_at - n.started_at),
                'items', case when n.items_total is not null then jsonb_build_object(
                    'total', n.items_total, 'done', n.items_done, 'failed', n.items_failed) end,
                'message', n.message, 'code', n.problem ->> 'code', 'problem', n.problem ->> 'message')
        from the_runs r join app.run_nodes n using (run_id)
        where (n.started_at is not null or n.finished_at is not null)
            and not exists (select from app.node_transitions t where t.run_id = n.run_id)
        union all
        select max(a.created_at), 'artifacts', a.run_id, 3, min(a.artifact_id),
            jsonb_build_object('role', a.role, 'count', count(*), 'size_bytes', sum(a.size_bytes), 'first', min(a.name))
        from the_runs r join app.artifacts a using (run_id)
        group by a.run_id, a.role
        union all
        select d.at, case when d.status_code between 200 and 299 then 'callback.delivered' else 'callback.failed' end,
            null, 4, d.delivery_id,
            jsonb_build_object('callback_id', c.callback_id, 'told', c.status, 'answer', d.status_code,
                'error', d.error, 'milliseconds', d.duration_ms)
        from app.callbacks c join app.callback_deliveries d using (callback_id) where c.request_id = :request_id
    ),
    placed as (
        select *, (lpad(to_hex(source), 2, '0') || lpad(to_hex(number), 30, '0'))::uuid as place from entries
    )
    select at, kind, run_id, facts, place from placed
    where cast(:after_at as timestamptz) is null or (at, place) > (cast(:after_at as timestamptz), cast(:after as uuid))
    order by at, place
    limit :limit
""")


@dataclass(frozen=True)
class Records:
    session: AsyncSession

    async def run(self, run_id: UUID) -> tuple[Run, Request, WorkflowDefinition] | None:
        """A run with its request and the definition that it is pinned to."""
        query = (
            select(Run, Request, WorkflowDefinition)
            .join(Request, Request.request_id == Run.request_id)
            .join(
                WorkflowDefinition,
                (WorkflowDefinition.workflow_id == Run.workflow_id) & (WorkflowDefinition.version == Run.version),
            )
            .where(Run.run_id == run_id)
        )
        row = (await self.session.execute(query)).first()
        return (row[0], row[1], row[2]) if row else None

    async def runs(
        self,
        limit: int,
        after: Position | None,
        states: Sequence[RunState],
        workflow_id: str | None,
        platform: str | None,
    ) -> Listed[tuple[Run, Request], Position]:
        """Newest first. No states means all."""
        await by_index(self.session)
        has_index = bool(states) and set(states) <= set(OPEN_RUNS)
        look = Look(Run, Run.created_at, Run.run_id, after, [Run.state.in_(states)] if has_index else [])
        shown = look.shown()
        query = select(shown, Request).join(Request, Request.request_id == shown.request_id)
        if states and not has_index:
            query = query.where(shown.state.in_(states))
        if workflow_id is not None:
            query = query.where(shown.workflow_id == workflow_id)
        if platform is not None:
            query = query.where(Request.platform_id == platform)
        query = query.order_by(shown.created_at.desc(), shown.run_id.desc()).limit(limit)
        rows = [(row[0], row[1]) for row in await self.session.execute(query)]
        last = Position(rows[-1][0].created_at, rows[-1][0].run_id) if rows else None
        return Listed(rows, await look.next(self.session, rows, limit, last))

    async def requests(
        self,
        limit: int,
        after: Position | None,
        states: Sequence[RequestState],
        platform_id: str | None,
        asset_id: str | None,
    ) -> Listed[Request, Position]:
        """Newest first. No states means all."""
        await by_index(self.session)
        conditions = [
            *([Request.status.in_(states)] if states and set(states) <= set(OPEN_REQUESTS) else []),
            *([Request.asset_id == asset_id] if asset_id is not None else []),
        ]
        of = None if platform_id is None else (Request.platform_id, platform_id)
        look = Look(Request, Request.created_at, Request.request_id, after, conditions, of)
        shown = look.shown()
        query = select(shown).order_by(shown.created_at.desc(), shown.request_id.desc()).limit(limit)
        if states:
            query = query.where(shown.status.in_(states))
        rows = (await self.session.scalars(query)).all()
        last = Position(rows[-1].created_at, rows[-1].request_id) if rows else None
        return Listed(rows, await look.next(self.session, rows, limit, last))

    async def of_flow_run(self, flow_run_id: UUID) -> Run | None:
        """A flow run that was retried in Prefect's UI has several attempts, all of one run."""
        own = select(Attempt.run_id).where(Attempt.flow_run_id == flow_run_id)
        child = select(AttemptFlowRun.run_id).where(AttemptFlowRun.flow_run_id == flow_run_id)
        return await self.session.scalar(select(Run).where(Run.run_id.in_(own.union_all(child))).limit(1))

    async def dependencies(self, run: Run) -> Sequence[UUID]:
        """The runs of its request that it waits for."""
        query = select(Run.run_id).where(Run.request_id == run.request_id, Run.step_id.in_(run.depends_on))
        return (await self.session.scalars(query.order_by(Run.sequence))).all()

    async def attempts(self, run_id: UUID) -> Sequence[Attempt]:
        query = select(Attempt).where(Attempt.run_id == run_id).order_by(Attempt.number)
        return (await self.session.scalars(query)).all()

    async def flow_runs(self, run_id: UUID) -> Sequence[AttemptFlowRun]:
        query = select(AttemptFlowRun).where(AttemptFlowRun.run_id == run_id)
        return (await self.session.scalars(query.order_by(AttemptFlowRun.registered_at))).all()

    async def nodes(self, run_id: UUID, first: int, limit: int) -> Sequence[RunNode]:
        query = select(RunNode).where(RunNode.run_id == run_id, RunNode.position >= first)
        return (await self.session.scalars(query.order_by(RunNode.position).limit(limit))).all()

    async def counts(self, run: Run) -> tuple[int, int, datetime | None]:
        """How many nodes and how many artifacts, and when something of it changed last, besides its own states."""
        of_nodes = select(func.count(), func.max(RunNode.updated_at)).where(RunNode.run_id == run.run_id).subquery()
        of_files = select(func.count()).select_from(ArtifactRow).where(ArtifactRow.run_id == run.run_id)
        told = select(func.max(Event.at)).where(Event.request_id == run.request_id, Event.run_id == run.run_id)
        columns = (of_files.scalar_subquery(), told.scalar_subquery(), *of_nodes.c)
        artifacts, told_at, nodes, noted_at = (await self.session.execute(select(*columns))).one()
        return nodes, artifacts, max(filter(None, (told_at, noted_at)), default=None)

    async def timeline(self, request_id: UUID, limit: int, after: Position | None) -> Sequence[RowMapping]:
        """Oldest first."""
        values = {
            "request_id": request_id,
            "limit": limit,
            "after_at": after.at if after else None,
            "after": after.id if after else None,
        }
        return (await self.session.execute(TIMELINE, values)).mappings().all()

    async def newest_flow_runs(self, request_id: UUID, limit: int) -> Sequence[UUID]:
        """The newest flow runs that worked for the request."""
        query = (
            select(AttemptFlowRun.flow_run_id)
            .join(Run, Run.run_id == AttemptFlowRun.run_id)
            .where(Run.request_id == request_id)
            .order_by(AttemptFlowRun.registered_at.desc())
            .limit(limit)
        )
        return (await self.session.scalars(query)).all()

    async def node_states(self, request_id: UUID) -> dict[str, int]:
        query = (
            select(RunNode.state, func.count())
            .join(Run, Run.run_id == RunNode.run_id)
            .where(Run.request_id == request_id)
            .group_by(RunNode.state)
        )
        return {row[0]: row[1] for row in await self.session.execute(query)}
