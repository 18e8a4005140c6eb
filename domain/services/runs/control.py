"""What operators order while work goes on: cancel, run again, prefer, pause, limit. Each leaves an audit entry."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.control import Cancel, Limit, Pause, Prioritise, RequestStands, Rerun, Resume
from domain.errors import AlreadyFinished, NotRerunnable
from domain.models import Request, Run
from domain.repositories.assets import Assets
from domain.repositories.controls import Controls
from domain.repositories.node_states import NodeStates
from domain.repositories.platforms import Platforms
from domain.repositories.runs import Runs
from domain.rules.control import reopened, rerun_refusal, scope_name
from domain.rules.lifecycle import OPEN_REQUESTS, OPEN_RUNS, IllegalTransition, RequestState
from domain.security import Identity
from domain.services.lookups import found_request, found_run, no_request
from domain.services.operations.audit import record
from domain.services.operations.workflow_definitions import Definitions
from domain.services.publication.approvals import Ballot
from domain.services.runs.endings import RunLifecycle
from domain.services.runs.fence import reopen
from domain.services.runs.queueing import node_rows
from flows.compiler import InputFault, Plan

AGAIN = "It was processed again."


@dataclass(frozen=True)
class Control:
    """Orders about requests and runs, and about the service as a whole."""

    session: AsyncSession
    definitions: Definitions
    who: Identity

    async def cancel(self, request_id: UUID, order: Cancel) -> RequestStands:
        """Stop a request: what waits at once, what runs by its next heartbeat. Asked again, it answers the same.

        Of one that failed, what still runs beside the failed step is stopped; it stays failed.
        """
        request = await found_request(self.session, request_id)
        await self._refuse_strangers(request, order.client_id)
        request = await found_request(self.session, request_id, lock=True)  # before its runs, as everywhere
        failed_at_work = request.status is RequestState.FAILED and await self._is_at_work(request)
        if request.status in {RequestState.COMPLETED, RequestState.FAILED} and not failed_at_work:
            raise _nothing_to_cancel(request)
        if request.status in OPEN_REQUESTS or failed_at_work:
            await RunLifecycle(self.session).cancel_request(request, actor=order.client_id or self.who.client_id)
            record(
                self.session,
                self.who,
                "cancel",
                f"request/{request_id}",
                reason=order.reason,
                on_behalf_of=order.client_id,
            )
        return _stands(request)

    async def _is_at_work(self, request: Request) -> bool:
        runs = await Runs(self.session).of_request(request.request_id)
        return any(run.state in OPEN_RUNS for run in runs)

    async def rerun(self, run_id: UUID, order: Rerun) -> RequestStands:
        """Open a finished run again, and the later ones that its end had cancelled."""
        run = await found_run(self.session, run_id)
        request = await found_request(self.session, run.request_id)
        if request.asset_id is not None:
            await Assets(self.session).lock(request.asset_id)  # before the request, as everywhere
        request = await found_request(self.session, run.request_id, lock=True)
        revision = await Assets(self.session).revision_facts(request)
        locked = await Runs(self.session).locked_of_request(request.request_id)
        before = [one.state for one in locked if one.sequence < run.sequence]
        if refusal := rerun_refusal(order.scope, run.state, revision, before, request.collected):
            raise NotRerunnable(refusal)
        if request.collecting_at is not None:
            await Runs(self.session).number_beyond(locked)
            request.collecting_at = request.collected_at = None
        again = reopened(order.scope, run.sequence, [(one.sequence, one.state) for one in locked])
        for one in locked:
            if one.sequence in again:
                await self._reopen(one, order)
        await self._void_votes(request)
        await RunLifecycle(self.session).reopen(request, run, self.who.client_id, scope=order.scope)
        record(self.session, self.who, "rerun", f"run/{run_id}", scope=order.scope, definition=order.definition)
        await RunLifecycle(self.session).go_on(request)
        return _stands(request)

    async def prioritise(self, request_id: UUID, order: Prioritise) -> RequestStands:
        """Have what is not dispatched yet dispatched earlier or later than the rest."""
        request = await found_request(self.session, request_id, lock=True)
        await Runs(self.session).locked_of_request(request_id)
        await Runs(self.session).prefer(request, order.priority)
        before, request.priority = request.priority, order.priority
        record(self.session, self.who, "prioritise", f"request/{request_id}", before=before, after=order.priority)
        return _stands(request)

    async def pause(self, order: Pause) -> None:
        name = scope_name(workflow_id=order.workflow_id, platform_id=order.platform_id)
        await Controls(self.session).put("pause", name, order.reason, self.who.client_id)
        record(self.session, self.who, "pause", name, reason=order.reason)

    async def resume(self, order: Resume) -> bool:
        """Take the pause back and wake the relays. False where there was none."""
        name = scope_name(workflow_id=order.workflow_id, platform_id=order.platform_id)
        if not await Controls(self.session).remove("pause", name):
            return False
        record(self.session, self.who, "resume", name)
        Runs(self.session).wake_relays()
        return True

    async def limit(self, order: Limit) -> None:
        named = {order.about: order.name}
        name = scope_name(workflow_id=named.get("workflow"), platform_id=named.get("platform"), pool=named.get("pool"))
        if order.about == "workflow" and order.value is not None:
            self.definitions.named(order.name)  # refused where there is none: it would limit nothing
        controls = Controls(self.session)
        if order.value is None:
            await controls.remove(order.kind, name)
        else:
            await controls.put(order.kind, name, order.value, self.who.client_id)
        record(self.session, self.who, "limit", name, kind=order.kind, value=order.value)
        Runs(self.session).wake_relays()

    async def _void_votes(self, request: Request) -> None:
        """What was said, and what pages show, is about the product that was there. The asset is locked."""
        if request.asset_id is None or request.ordinal is None or request.revision is None:
            return
        assets = Assets(self.session)
        asset = await assets.taken(request.asset_id)
        version = await assets.version(request.asset_id, request.ordinal)
        revision = await assets.revision(request.asset_id, request.ordinal, request.revision)
        if version is not None and revision is not None:
            await Ballot(self.session, asset, revision).close(AGAIN)
            version.lock_version += 1

    async def _reopen(self, run: Run, order: Rerun) -> None:
        """Back to pending. What the engine remembers stays only for what failed, on the definition it ran by."""
        try:
            reopen(run)
        except IllegalTransition as refused:
            told = f"Run {run.sequence} of the request is {run.state.value}. Wait for its end first."
            raise NotRerunnable(told) from refused
        run.started_at = None
        asked = (await found_request(self.session, run.request_id)).asked_nodes
        changed = order.definition == "current" and self._repin(run, asked)
        if order.scope == "failed" and not changed:
            await NodeStates(self.session).reset_unfinished(run.run_id)
            return
        run.memory += 1
        nodes = node_rows(run.run_id, await self._plan(run), asked)
        await NodeStates(self.session).replace(run.run_id, nodes)

    def _repin(self, run: Run, asked: list[str] | None) -> bool:
        """Pin the current definitions, of the sub-workflows too; whether any of them is another."""
        definition = self.definitions.named(run.workflow_id)
        plan, before = definition.plan, (run.inputs, run.digest, run.pins)
        if gone := sorted(set(asked or ()) - plan.nodes.keys()):
            raise NotRerunnable(f"The current definition has no node {gone[0]!r}, which the run is of.")
        if run.step_id is None:
            try:
                run.inputs = plan.resolve_inputs({k: v for k, v in run.inputs.items() if v is not None})
            except InputFault as fault:
                raise NotRerunnable(f"The current definition does not take the run's inputs: {fault}") from fault
        run.version, run.digest, run.pins = str(plan.version), plan.digest, dict(definition.pins)
        run.work_pool = definition.work_pool
        return before != (run.inputs, run.digest, run.pins)

    async def _plan(self, run: Run) -> Plan:
        definition = await Runs(self.session).definition(run.workflow_id, run.version)
        if definition is None:
            raise NotRerunnable(f"Workflow {run.workflow_id} version {run.version} is not published.")
        return Plan.from_json(definition.plan)

    async def _refuse_strangers(self, request: Request, client_id: str | None) -> None:
        """The gateway cancels for a partner: of another platform's request it learns no more than of none."""
        if client_id is None and self.who.role != "gateway":
            return
        platform = await Platforms(self.session).platform_of(client_id or "")
        if platform is None or platform != request.platform_id:
            raise no_request(request.request_id)


def _nothing_to_cancel(request: Request) -> AlreadyFinished:
    return AlreadyFinished(f"The request is {request.status.value}; there is nothing left to cancel.")


def _stands(request: Request) -> RequestStands:
    return RequestStands.model_validate(
        {"request_id": request.request_id, "status": request.status.value, "priority": request.priority}
    )
