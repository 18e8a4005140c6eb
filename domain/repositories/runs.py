"""Runs, attempts, nodes, artifacts and workflow definitions."""

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import case, delete, func, null, select, text, tuple_, update
from sqlalchemy import insert as insert_rows
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from domain.after_commit import after_commit
from domain.contracts.artifacts import Artifact
from domain.contracts.runs import FlowRunNews, RunStart
from domain.models import ArtifactRow, Attempt, AttemptFlowRun, Request, Run, RunNode, WorkflowDefinition
from domain.models.base import FRESH
from domain.models.transitions import transition
from domain.repositories.controls import is_held
from domain.rules.fairness import priority_in_line
from domain.rules.lifecycle import ATTEMPT, LIVE_ATTEMPTS, AttemptEvent, AttemptState, RunState

# A child run's beat shows that the child lives, and says nothing of its parent, which alone can hand in the outcome.
BEAT = text(f"""
    update app.attempts a set heartbeat_at = case when :of_child then a.heartbeat_at else clock_timestamp() end,
        news = a.news + cast(:news as int)
    where a.run_id = :run_id and a.token = :token and a.state = 'started'
    returning {is_held("a.workflow_id", "a.platform_id")} as paused, a.news, a.number
""")  # noqa: S608 - our own words


class Noted(NamedTuple):
    """What is told to whoever beats: whether a pause holds its run, how much news there is of child runs.

    And which attempt of the run it works for.
    """

    paused: bool
    news: int
    attempt: int


@dataclass(frozen=True)
class Runs:
    session: AsyncSession

    async def get(self, run_id: UUID, *, lock: bool = False) -> Run | None:
        if not lock:
            return await self.session.get(Run, run_id)
        return await self.session.scalar(
            select(Run).where(Run.run_id == run_id).with_for_update().execution_options(**FRESH)
        )

    async def of_request(self, request_id: UUID) -> Sequence[Run]:
        query = select(Run).where(Run.request_id == request_id).order_by(Run.sequence)
        return (await self.session.scalars(query)).all()

    async def locked_of_request(self, request_id: UUID) -> Sequence[Run]:
        """The request's runs, locked in their order. The request's own lock is held."""
        query = select(Run).where(Run.request_id == request_id).order_by(Run.sequence).with_for_update()
        return (await self.session.scalars(query.execution_options(**FRESH))).all()

    async def add_attempt(
        self, run_id: UUID, number: int, pause_seconds: float = 0, awaits: Sequence[str] | None = None
    ) -> None:
        """Open an attempt. Its row is the outbox entry of its dispatch; the relay hears of it once this commits.

        It is sent after a pause, and not before some worker has the handlers that it awaits.
        """
        attempt = await self.new_attempt(run_id, number)
        attempt.awaits = None if awaits is None else list(awaits)
        if pause_seconds:
            attempt.not_before = func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, pause_seconds)
        self.wake_relays()

    async def release(self, run_id: UUID) -> None:
        """Let the attempt be sent that awaited a worker."""
        place = (Attempt.run_id == run_id, Attempt.state == AttemptState.READY)
        await self.session.execute(update(Attempt).where(*place).values(awaits=null()))
        self.wake_relays()

    def wake_relays(self) -> None:
        """Have the relays look once this has committed."""
        after_commit(self.session).has_work = True

    def tell_fenced(self, run_id: UUID) -> None:
        """Have who works for the run told to stop once this has committed."""
        after_commit(self.session).fenced.add(run_id)

    async def newest_attempt(self, run_id: UUID) -> Attempt:
        """The run's last attempt, locked. Asked for of runs that have one."""
        query = select(Attempt).where(Attempt.run_id == run_id).order_by(Attempt.number.desc()).limit(1)
        return (await self.session.scalars(query.with_for_update().execution_options(**FRESH))).one()

    async def number_beyond(self, runs: Sequence[Run]) -> None:
        """Have attempts from now on be numbered beyond all that any of these runs has had.

        Runs of one request share a folder. What is still being removed there belongs to the numbers before.
        """
        highest = select(func.max(Attempt.number)).where(Attempt.run_id.in_([run.run_id for run in runs]))
        beyond = (await self.session.scalar(highest) or 0) + 1
        for run in runs:
            run.first_attempt = beyond

    async def next_attempt(self, run_id: UUID) -> int:
        highest = await self.session.scalar(select(func.max(Attempt.number)).where(Attempt.run_id == run_id))
        return (highest or 0) + 1

    async def blame(self, run_id: UUID) -> int:
        """Note that the run's process vanished; returns the most times in a row that it did under one node at work."""
        done = func.coalesce(RunNode.items_done, 0)
        again = case((done > RunNode.lost_at, 1), else_=RunNode.losses + 1)
        at_work = (RunNode.run_id == run_id, RunNode.state == "running")
        noted = update(RunNode).where(*at_work).values(losses=again, lost_at=done).returning(RunNode.losses)
        return max((await self.session.scalars(noted)).all(), default=0)

    async def count_anew(self, run: Run, first_attempt: int) -> None:
        """Begin another opening of the run: nothing that was before counts against it."""
        run.first_attempt, run.hand_overs = first_attempt, 0
        lost = (RunNode.run_id == run.run_id, RunNode.losses > 0)
        await self.session.execute(update(RunNode).where(*lost).values(losses=0, lost_at=0))

    async def new_attempt(self, run_id: UUID, number: int) -> Attempt:
        """An attempt that nobody is told of."""
        run = await self.session.get_one(Run, run_id)
        request = await self.session.get_one(Request, run.request_id)
        attempt = Attempt(
            run_id=run_id,
            number=number,
            token=secrets.token_urlsafe(32),
            state=ATTEMPT.initial,
            pool=run.pool,
            work_pool=run.work_pool,
            priority=priority_in_line(run.priority, of_the_service=request.is_of_the_service),
            platform_id=request.platform_id or "",
            workflow_id=run.workflow_id,
        )
        self.session.add(attempt)
        return attempt

    async def adopted_attempt(self, run_id: UUID, number: int, flow_run_id: UUID) -> Attempt:
        """An attempt of a flow run that Prefect has begun already: nothing is left to send."""
        attempt = await self.new_attempt(run_id, number)
        transition(attempt, AttemptEvent.ADOPTED)
        attempt.flow_run_id = flow_run_id
        return attempt

    async def prefer(self, request: Request, priority: str) -> None:
        """Have what waits of the request wait by this priority; in line too, where it has an attempt already."""
        of_request = select(Run.run_id).where(Run.request_id == request.request_id)
        await self.session.execute(update(Run).where(Run.request_id == request.request_id).values(priority=priority))
        in_line = priority_in_line(priority, of_the_service=request.is_of_the_service)
        waits = (Attempt.run_id.in_(of_request), Attempt.state == AttemptState.READY)
        await self.session.execute(update(Attempt).where(*waits).values(priority=in_line))

    async def take_flow_run(self, flow_run_id: UUID) -> None:
        """Have those who ask about one flow run take turns: one that was not answered in time may still be at it."""
        await self.session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(str(flow_run_id), 0))))

    async def attempt_of_flow_run(self, flow_run_id: UUID) -> Attempt | None:
        """The newest attempt that this flow run was started for."""
        query = select(Attempt).where(Attempt.flow_run_id == flow_run_id).order_by(Attempt.number.desc()).limit(1)
        return await self.session.scalar(query)

    async def attempt(self, run_id: UUID, token: str) -> Attempt | None:
        """The attempt that this token belongs to, locked: start, commit and fencing of a run take turns."""
        query = select(Attempt).where(Attempt.run_id == run_id, Attempt.token == token).with_for_update()
        return await self.session.scalar(query.execution_options(**FRESH))

    async def link_flow_run(self, attempt: Attempt, told: RunStart) -> None:
        """Record a flow run, and what it says of itself, before it does any work."""
        facts = told.model_dump(include={"flow_run_id", "segment", "pool", "image", "job_template"})
        link = insert(AttemptFlowRun).values(run_id=attempt.run_id, number=attempt.number, **facts)
        await self.session.execute(
            link.on_conflict_do_update(index_elements=["flow_run_id"], set_={"number": attempt.number})
        )

    async def note_flow_runs(self, run_id: UUID, number: int, told: Sequence[FlowRunNews] | None) -> None:
        """Record which nodes flow runs of this attempt work for. The attempt's row is locked."""
        if told:
            newest = {one.flow_run_id: one.nodes for one in told}
            rows = [{"run_id": run_id, "number": number, "flow_run_id": one, "nodes": newest[one]} for one in newest]
            link = insert(AttemptFlowRun).values(rows)
            values = {"number": number, "nodes": link.excluded.nodes}
            own = AttemptFlowRun.run_id == run_id
            await self.session.execute(
                link.on_conflict_do_update(index_elements=["flow_run_id"], set_=values, where=own)
            )

    async def beat(
        self, run_id: UUID, token: str, *, of_child: bool = False, left_outcome: bool = False
    ) -> Noted | None:
        """Note that the attempt lives, or that its child run has left something. None where it is not the live one."""
        values = {"run_id": run_id, "token": token, "of_child": of_child, "news": int(left_outcome)}
        noted = (await self.session.execute(BEAT, values)).one_or_none()
        if noted is not None and left_outcome:
            self._tell_parent(run_id)
        return Noted(*noted) if noted else None

    def note_child(self, attempt: Attempt) -> None:
        """A child run of this attempt, which is locked, has begun."""
        attempt.news += 1
        self._tell_parent(attempt.run_id)

    def _tell_parent(self, run_id: UUID) -> None:
        """Have the flow run that waits for child runs look once this has committed."""
        after_commit(self.session).children.add(run_id)

    async def put_artifacts(self, run: Run, request: Request, artifacts: Iterable[Artifact]) -> None:
        """Record what the run left behind, in place of what an earlier outcome of it did."""
        await self.session.execute(delete(ArtifactRow).where(ArtifactRow.run_id == run.run_id))
        place: dict[str, Any] = {"run_id": run.run_id, "asset_id": request.asset_id}
        place |= {"ordinal": request.ordinal, "revision": request.revision}
        if left := [{**artifact.model_dump(), **place} for artifact in artifacts]:
            await self.session.execute(insert_rows(ArtifactRow), left)

    async def pending_after(self, request_id: UUID, sequence: int) -> Sequence[Run]:
        """Pending runs behind this one, locked in their order."""
        query = select(Run).where(Run.request_id == request_id, Run.sequence > sequence, Run.state == RunState.PENDING)
        query = query.order_by(Run.sequence).with_for_update().execution_options(**FRESH)
        return (await self.session.scalars(query)).all()

    async def live_attempt(self, run_id: UUID) -> Attempt | None:
        query = select(Attempt).where(Attempt.run_id == run_id, Attempt.state.in_(LIVE_ATTEMPTS)).with_for_update()
        return await self.session.scalar(query.execution_options(**FRESH))

    async def definition(self, workflow_id: str, version: str) -> WorkflowDefinition | None:
        return await self.session.get(WorkflowDefinition, (workflow_id, version))

    async def published(self, workflow_id: str, version: str | None) -> WorkflowDefinition | None:
        """The definition of this version; without one, that which was taken up last."""
        if version is not None:
            return await self.definition(workflow_id, version)
        query = select(WorkflowDefinition).where(WorkflowDefinition.workflow_id == workflow_id)
        return await self.session.scalar(query.order_by(WorkflowDefinition.taken_up_at.desc()).limit(1))

    async def pinned_plans(self, pins: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Any]]:
        """The plans of these definitions, by workflow. What was published never changes and never goes."""
        if not pins:
            return {}
        wanted = [(workflow_id, pin["version"]) for workflow_id, pin in pins.items()]
        place = tuple_(WorkflowDefinition.workflow_id, WorkflowDefinition.version).in_(wanted)
        rows = await self.session.execute(select(WorkflowDefinition.workflow_id, WorkflowDefinition.plan).where(place))
        return {row[0]: row[1] for row in rows}

    async def publish(self, definitions: Mapping[tuple[str, str], Mapping[str, Any]]) -> dict[str, str]:
        """Keep the definitions whose id and version are not taken; returns the digests that are kept, by workflow.

        In the order of their ids: services that start together must not deadlock.
        """
        kept = await self._digests(definitions)
        if new := [definitions[place] for place in sorted(definitions) if place[0] not in kept]:
            await self.session.execute(insert(WorkflowDefinition).values(new).on_conflict_do_nothing())
            kept = await self._digests(definitions)
        return kept

    async def _digests(self, places: Collection[tuple[str, str]]) -> dict[str, str]:
        of = WorkflowDefinition
        found = select(of.workflow_id, of.digest).where(tuple_(of.workflow_id, of.version).in_(list(places)))
        return {row[0]: row[1] for row in await self.session.execute(found)}
