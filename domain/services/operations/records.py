"""What operators read about runs, workflows and requests: stored facts and the pinned plan, put together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.records import (
    Assignment,
    AttemptRecord,
    ComposeFile,
    FlowRunRecord,
    RequestPage,
    RequestRecord,
    RequestRun,
    RequestSummary,
    Resources,
    RunPage,
    RunRecord,
    RunSummary,
    Stage,
    Timeline,
    TimelineEntry,
    WorkflowDetail,
    WorkflowPin,
    WorkflowSummary,
)
from domain.errors import NotFound
from domain.models import Attempt, AttemptFlowRun, Request, Run, RunNode
from domain.repositories.holds import Holds
from domain.repositories.records import Records
from domain.repositories.run_metrics import RunMetrics
from domain.repositories.runs import Runs
from domain.rules.holds import PAUSED
from domain.rules.lifecycle import OPEN_RUNS, RequestState, RunState
from domain.rules.paging import Position, to_token
from domain.services.lookups import found_request
from domain.services.operations.callbacks import place_of
from domain.services.operations.workflow_definitions import Definitions
from flows.compiler import Node, Plan

RECORD_VERSION = "1.0"
LONGEST_TEXT = 300
PAGE_BYTES = 150_000
MOST_FLOW_RUNS = 100


@dataclass(frozen=True)
class RecordDesk:
    session: AsyncSession
    definitions: Definitions

    async def run(self, run_id: UUID, first_stage: int, stages: int) -> RunRecord:
        """The run's record, with so many of its stages."""
        records = Records(self.session)
        found = await records.run(run_id)
        if found is None:
            raise NotFound(f"There is no run {run_id}.")
        run, request, definition = found
        plan = Plan.from_json(definition.plan)
        attempts, flow_runs = await records.attempts(run_id), await records.flow_runs(run_id)
        nodes_total, artifacts, noted_at = await records.counts(run)
        nodes = await records.nodes(run_id, first_stage, stages)
        return RunRecord(
            **(await self._summaries([(run, request)]))[0].model_dump(),
            record_version=RECORD_VERSION,
            updated_at=max(filter(None, (run.created_at, run.started_at, run.finished_at, noted_at))),
            type=plan.type,
            sub_workflows=[WorkflowPin(id=name, **run.pins[name]) for name in sorted(run.pins)],
            memory=run.memory,
            sequence=run.sequence,
            dependencies=list(await records.dependencies(run)),
            ordinal=request.ordinal,
            revision=request.revision,
            is_internal=request.is_internal,
            inputs=run.inputs,
            outputs=run.outputs,
            problem=run.problem,
            sla_seconds=plan.sla_seconds,
            artifacts=artifacts,
            metrics=await RunMetrics(self.session).of_run(run_id),
            attempts=[_attempt(attempt, flow_runs) for attempt in attempts],
            stages=[_stage(node, plan.nodes.get(node.node_id), flow_runs) for node in nodes],
            stages_total=nodes_total,
            timeline_url=f"/api/v1/requests/{run.request_id}/timeline",
        )

    async def request(self, request_id: UUID) -> RequestRecord:
        """The request with its runs in their order."""
        request = await found_request(self.session, request_id)
        runs = await Runs(self.session).of_request(request_id)
        return RequestRecord.model_validate(request).model_copy(
            update={"runs": [RequestRun.model_validate(run) for run in runs]}
        )

    async def requests(
        self,
        limit: int,
        token: str | None,
        states: tuple[RequestState, ...],
        platform_id: str | None,
        asset_id: str | None,
    ) -> RequestPage:
        """Return one page of requests, newest first."""
        listed = await Records(self.session).requests(limit, place_of(token), states, platform_id, asset_id)
        return RequestPage(
            requests=[RequestSummary.model_validate(row) for row in listed.rows],
            next=to_token(listed.next) if listed.next else None,
        )

    async def of_flow_run(self, flow_run_id: UUID) -> RunSummary:
        """The run that a flow run of Prefect worked for, itself or as a child."""
        run = await Records(self.session).of_flow_run(flow_run_id)
        if run is None:
            raise NotFound(f"No run of ours is known that flow run {flow_run_id} worked for.")
        return (await self._summaries([(run, await found_request(self.session, run.request_id))]))[0]

    async def runs(
        self, limit: int, token: str | None, states: tuple[RunState, ...], workflow_id: str | None, platform: str | None
    ) -> RunPage:
        """Return one page of runs, newest first."""
        listed = await Records(self.session).runs(limit, place_of(token), states, workflow_id, platform)
        return RunPage(
            runs=await self._summaries(listed.rows),
            next=to_token(listed.next) if listed.next else None,
        )

    async def _summaries(self, rows: Sequence[tuple[Run, Request]]) -> list[RunSummary]:
        """Each run as it stands, with what holds it now."""
        held = await Holds(self.session).of_runs([run.run_id for run, _ in rows if run.state in OPEN_RUNS])
        return [_summary(run, request, held.get(run.run_id)) for run, request in rows]

    def workflows(self) -> list[WorkflowSummary]:
        """The newest definition of each workflow that this service can run."""
        return [_workflow(self.definitions, name) for name in sorted(self.definitions.by_id)]

    def workflow(self, workflow_id: str) -> WorkflowDetail:
        if workflow_id not in self.definitions.by_id:
            raise NotFound(f"There is no workflow {workflow_id!r}.")
        known = self.definitions.by_id[workflow_id]
        return WorkflowDetail(
            **_workflow(self.definitions, workflow_id).model_dump(),
            input_schema=known.plan.input_schema(),
            source=known.source,
            stages=list(known.plan.nodes),
        )

    async def timeline(self, request_id: UUID, limit: int, token: str | None) -> Timeline:
        """Return one page of what happened to a request, oldest first."""
        request = await found_request(self.session, request_id)
        records = Records(self.session)
        rows = await records.timeline(request_id, limit, place_of(token))
        entries = _fitting(
            TimelineEntry(at=row["at"], kind=row["kind"], run_id=row["run_id"], facts=_short(row["facts"]))
            for row in rows
        )
        is_all = len(entries) == len(rows) < limit
        last = rows[len(entries) - 1] if rows and not is_all else None
        return Timeline(
            request_id=request_id,
            status=request.status.value,
            nodes=await records.node_states(request_id),
            entries=entries,
            next=to_token(Position(last["at"], last["place"])) if last else None,
        )


def _fitting(entries: Iterable[TimelineEntry]) -> list[TimelineEntry]:
    """Return as many entries as a page may weigh, and one at least."""
    taken: list[TimelineEntry] = []
    weight = 0
    for entry in entries:
        weight += len(entry.model_dump_json().encode())
        if taken and weight > PAGE_BYTES:
            break
        taken.append(entry)
    return taken


def _short(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts with long texts cut: the record has them in full."""
    return {
        name: value[:LONGEST_TEXT] if isinstance(value, str) else value
        for name, value in facts.items()
        if value is not None
    }


def _summary(run: Run, request: Request, held_by: str | None) -> RunSummary:
    return RunSummary(
        run_id=run.run_id,
        request_id=run.request_id,
        platform_id=request.platform_id,
        asset_id=request.asset_id,
        workflow=WorkflowPin(id=run.workflow_id, version=run.version, digest=run.digest),
        step_id=run.step_id,
        pool=run.pool,
        priority=run.priority,
        state=run.state.value,
        reason=PAUSED if held_by else run.reason,
        unroutable_pool=run.unroutable_pool,
        unroutable_why=run.unroutable_why,
        held_by=held_by,
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
    )


def _attempt(attempt: Attempt, flow_runs: Sequence[AttemptFlowRun]) -> AttemptRecord:
    facts = {name: getattr(attempt, name) for name in AttemptRecord.model_fields if name != "flow_runs"}
    worked = [FlowRunRecord.model_validate(one) for one in flow_runs if one.number == attempt.number]
    return AttemptRecord(**facts, flow_runs=worked)


def _needs(planned: Node | None) -> Resources:
    if planned is None:
        return Resources()
    told = planned.resources
    return Resources(memory_mb=told.memory_mb, cpu=told.cpus, gpu=told.gpu)


def _at_work(node: RunNode, flow_runs: Sequence[AttemptFlowRun]) -> Sequence[AttemptFlowRun]:
    """The flow runs that did the node last, the newest first: its child runs where it had some, else the run's own."""
    if node.updated_at is None or node.state == "pending":
        return []
    told = [one for one in reversed(flow_runs) if node.node_id in (one.nodes or ())]
    own = [one for one in reversed(flow_runs) if one.segment is None and one.nodes is None]
    children = [one for one in told if one.segment is not None]
    inside = [one for one in told if one.segment is None]  # sub-workflows, which have no place of their own
    found = children or own
    newest = [one for one in found if one.number == found[0].number] if found else []
    return newest + inside if node.type != "workflow" else inside[:1] + newest


def _stage(node: RunNode, planned: Node | None, flow_runs: Sequence[AttemptFlowRun]) -> Stage:
    worked = _at_work(node, flow_runs)
    placed = next((one for one in worked if one.pool is not None), None)
    return Stage(
        id=node.node_id,
        type=node.type,
        handler=node.handler,
        version=str(planned.version) if planned and planned.version is not None else None,
        status=node.state,
        timeout_seconds=planned.timeout_seconds if planned else None,
        resources_required=_needs(planned),
        resources_assigned=Assignment(
            pool=placed.pool if placed else node.pool,
            flow_run_id=worked[0].flow_run_id if worked else None,
            flow_run_ids=[one.flow_run_id for one in worked[:MOST_FLOW_RUNS]],
        ),
        compose_file=ComposeFile(job_template=placed.job_template, image=placed.image) if placed else None,
        tries=node.tries,
        fraction=node.fraction,
        message=node.message,
        items_total=node.items_total,
        items_done=node.items_done,
        items_failed=node.items_failed,
        items_retried=node.items_retried,
        problem=node.problem,
        started_at=node.started_at,
        updated_at=node.updated_at or node.finished_at or node.started_at,
        resolved_parameters=node.parameters,
        parameters=dict(planned.params) if planned else {},
        dependencies=list(planned.predecessors) if planned else [],
        args=planned.args if planned else None,
    )


def _workflow(definitions: Definitions, workflow_id: str) -> WorkflowSummary:
    plan = definitions.by_id[workflow_id].plan
    return WorkflowSummary(
        workflow_id=plan.workflow_id,
        name=plan.name,
        version=str(plan.version),
        digest=plan.digest,
        description=plan.description,
        type=plan.type,
        accepts=["/".join(pair) for pair in plan.accepted_pairs()],
        sla_seconds=plan.sla_seconds,
        refused=definitions.refused.get(workflow_id),
    )
