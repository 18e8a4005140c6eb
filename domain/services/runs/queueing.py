"""Opens runs: for submissions, for operators, and for flow runs that somebody started in Prefect's UI."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.runs import Registered, RunCreate, RunCreated, RunRegister
from domain.errors import InvalidSubmission
from domain.models import Request, Run, RunNode
from domain.repositories.intake import FirstRun
from domain.repositories.requests import Requests
from domain.repositories.runs import Runs
from domain.rules import identity
from domain.rules.lifecycle import REQUEST, RUN
from domain.security import Identity
from domain.services.operations.audit import THE_SERVICE, record
from domain.services.operations.workflow_definitions import Definition, Definitions
from domain.services.runs.parts import part_order
from domain.services.runs.scratch_assets import open_scratch, refuse_publishing
from domain.services.runs.steps import queue_ready
from flows.compiler import InputFault, Plan, RequestPlan, Step
from flows.compiler.partition import home_pool, priority_of


async def queue_run(session: AsyncSession, request: Request, definition: Definition, inputs: dict[str, Any]) -> Run:
    """Add a run to the request, on the definition as it is now, with an attempt for the relay to send."""
    accept(session, request)
    run = await add_run(session, request, definition, inputs)
    await Runs(session).add_attempt(run.run_id, 1)
    return run


def first_run(definition: Definition, inputs: dict[str, Any], asked_priority: str) -> FirstRun:
    """The one run of a submission, ready to be written with it."""
    plan = definition.plan
    nodes = [(node.id, node.type, node.handler, node.pool) for node in plan.nodes.values()]
    pools, priority = (home_pool(plan), definition.work_pool), priority_of(asked_priority, plan.type)
    return FirstRun(plan.workflow_id, str(plan.version), plan.digest, definition.pins, *pools, priority, inputs, nodes)


async def queue_steps(
    session: AsyncSession, request: Request, plan: RequestPlan, inputs: dict[str, Any], definitions: Definitions
) -> None:
    """Add a run for every step of the plan, each on its workflow as it is now; queue those that wait for nothing."""
    request.plan = {"plan": plan.to_json(), "inputs": inputs}
    for place, step in enumerate(plan.steps):
        await add_run(session, request, definitions.named(step.workflow), {}, place + 1, step)
    if refused := await queue_ready(session, request):
        raise InvalidSubmission(f"Step {refused[0].run.step_id} cannot be given its inputs: {refused[0].reason}")


def accept(session: AsyncSession, request: Request) -> None:
    """Note that the request was taken in, and by whom."""
    event = "request.accepted"
    Requests(session).add_event(
        request.request_id, event, actor=request.client_id or THE_SERVICE.client_id, revision=request.revision
    )


async def add_run(
    session: AsyncSession,
    request: Request,
    definition: Definition,
    inputs: dict[str, Any],
    sequence: int = 1,
    step: Step | None = None,
) -> Run:
    """The run and its nodes, without an attempt."""
    plan = definition.plan
    run = Run(
        run_id=uuid4(),
        request_id=request.request_id,
        sequence=sequence,
        step_id=step.id if step else None,
        depends_on=list(step.depends_on) if step else [],
        pool=home_pool(plan),
        work_pool=definition.work_pool,
        workflow_id=plan.workflow_id,
        version=str(plan.version),
        digest=plan.digest,
        pins=dict(definition.pins),
        priority=priority_of(request.priority, plan.type),
        inputs=inputs,
        state=RUN.initial,
    )
    session.add(run)
    await session.flush()
    session.add_all(node_rows(run.run_id, plan, request.asked_nodes))
    Requests(session).add_event(request.request_id, "run.queued", run_id=run.run_id, workflow=plan.workflow_id)
    return run


def node_rows(run_id: UUID, plan: Plan, only: Collection[str] | None = None) -> list[RunNode]:
    """The plan's nodes, or those that were asked for, as a run begins with them."""
    return [
        RunNode(run_id=run_id, node_id=node.id, position=place, type=node.type, handler=node.handler, pool=node.pool)
        for place, node in enumerate(plan.nodes.values())
        if only is None or node.id in only
    ]


@dataclass(frozen=True)
class InternalRuns:
    """Runs that no partner asked for. Their requests are invisible to partners and can publish nothing."""

    session: AsyncSession
    definitions: Definitions

    async def create(self, order: RunCreate, caller: Identity) -> RunCreated:
        """Queue an operator's run, or a part of one. What it makes belongs to a scratch asset of its own."""
        definition = self.definitions.named(order.workflow_id)
        part = await part_order(self.session, definition.plan, order)
        refuse_publishing(definition, self.definitions)
        inputs = checked_inputs(definition.plan, part.inputs)
        content = part.content(definition.plan, inputs)
        request = self._request(content, caller, order.priority, order.callback_url)
        open_scratch(self.session, request, definition, self.definitions, part.nodes)
        run = await self._queued(request, definition, inputs)
        record(self.session, caller, "run.create", f"run/{run.run_id}", workflow=run.workflow_id)
        return RunCreated(run_id=run.run_id, request_id=run.request_id, asset_id=request.asset_id)

    async def queue(self, workflow_id: str, given: dict[str, Any], caller: Identity, priority: str = "normal") -> Run:
        """A run that the service orders, for a request of its own. It makes nothing that is an asset's."""
        definition = self.definitions.named(workflow_id)
        inputs = checked_inputs(definition.plan, given)
        request = self._request({"workflow_id": workflow_id, "inputs": inputs}, caller, priority)
        return await self._queued(request, definition, inputs)

    async def register(self, order: RunRegister, caller: Identity) -> Registered:
        """Make a run of a flow run that Prefect has already started: nothing is left to dispatch.

        Asked again, as after a lost answer or by Prefect's Retry, it answers with the same run.
        """
        runs = Runs(self.session)
        await runs.take_flow_run(order.flow_run_id)
        if attempt := await runs.attempt_of_flow_run(order.flow_run_id):
            return Registered(run_id=attempt.run_id, attempt_token=attempt.token)
        definition = self.definitions.named(order.workflow_id)
        refuse_publishing(definition, self.definitions)
        inputs = checked_inputs(definition.plan, order.inputs)
        request = self._request({"workflow_id": order.workflow_id, "inputs": inputs}, caller, "normal")
        open_scratch(self.session, request, definition, self.definitions, None)
        await self.session.flush()
        accept(self.session, request)
        run = await add_run(self.session, request, definition, inputs)
        attempt = await runs.adopted_attempt(run.run_id, 1, order.flow_run_id)
        return Registered(run_id=run.run_id, attempt_token=attempt.token)

    async def _queued(self, request: Request, definition: Definition, inputs: dict[str, Any]) -> Run:
        await self.session.flush()
        return await queue_run(self.session, request, definition, inputs)

    def _request(
        self, content: dict[str, Any], caller: Identity, priority: str, callback_url: str | None = None
    ) -> Request:
        request = Request(
            request_id=uuid4(),
            client_id=None if caller == THE_SERVICE else caller.client_id,
            is_internal=True,
            operation="run",
            submitted=content,
            fingerprint=identity.fingerprint(content),
            priority=priority,
            callback_url=callback_url,
            status=REQUEST.initial,
        )
        self.session.add(request)
        return request


def checked_inputs(plan: Plan | RequestPlan, given: dict[str, Any]) -> dict[str, Any]:
    """The workflow's inputs, with every fault of them in one refusal."""
    try:
        return plan.resolve_inputs(given)
    except InputFault as fault:
        raise InvalidSubmission(str(fault)) from fault
