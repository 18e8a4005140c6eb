"""How flow runs begin: one of them per attempt, also where somebody pressed Retry in Prefect's UI."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from domain.after_commit import after_commit
from domain.contracts.runs import RunStart, WorkOrder
from domain.errors import Fenced, Paused, Reopened
from domain.models import Attempt, Run
from domain.models.transitions import transition
from domain.repositories.assets import Assets
from domain.repositories.controls import Controls
from domain.repositories.node_states import NodeStates
from domain.repositories.requests import Requests
from domain.repositories.runs import Runs
from domain.rules.control import reopened, rerun_refusal
from domain.rules.lifecycle import (
    ATTEMPT,
    RUN,
    AttemptEvent,
    AttemptState,
    RequestEvent,
    RequestState,
    RunEvent,
    RunState,
    starts_in_vain,
)
from domain.services.lookups import found_request
from domain.services.operations.audit import PREFECT, record
from domain.services.runs.endings import RETRYING, RunLifecycle
from domain.services.runs.fence import end_attempt, fenced, reopen, tell
from domain.services.runs.work_order import work_order

HOLD_SECONDS = 5


@dataclass(frozen=True)
class RunStarts:
    """Gives a flow run its work, or says why not."""

    session: AsyncSession

    async def start(self, run_id: UUID, message: RunStart, heartbeat_seconds: float) -> WorkOrder | Reopened | Paused:
        """Give a flow run its work, if the attempt it names is the live one and not another flow run's.

        A refusal that is returned, not raised, has changed something that must be kept.
        """
        after_commit(self.session).failpoint = "start"
        run, attempt = await fenced(self.session, run_id, message.attempt_token)
        attempt = await self._shared(attempt, message)
        if starts_in_vain(attempt.state, run.state, message.run_count):  # nor may it hold a slot while a pause lasts
            raise Fenced(await self._why_not(run, attempt))
        is_at_work = attempt.flow_run_id == message.flow_run_id and attempt.state is AttemptState.STARTED
        if not is_at_work and (held := await self._held(run, attempt)):
            return held
        if message.segment is None:
            attempt = await self._retried(run, attempt, message) or attempt
            await self._claim(run, attempt, message)
        elif attempt.state is not AttemptState.STARTED:
            if reopened := await self._retried_child(run, attempt, message):
                return reopened
            raise Fenced(await self._why_not(run, attempt))
        await Runs(self.session).link_flow_run(attempt, message)
        if message.segment is not None:
            Runs(self.session).note_child(attempt)
        request = await found_request(self.session, run.request_id)
        if request.status is RequestState.PENDING:
            await RunLifecycle(self.session).enter(request, RequestEvent.STARTED)
        return await work_order(self.session, run, request, attempt, heartbeat_seconds)

    async def _held(self, run: Run, attempt: Attempt) -> Paused | None:
        """Turn a flow run away for now. It asks again and no try is used up; what has started goes on."""
        request = await Requests(self.session).get(run.request_id)
        name = await Controls(self.session).paused(run.workflow_id, request.platform_id if request else None)
        if not name:
            return None
        if attempt.state is not AttemptState.STARTED:  # who asks lives: after the pause it is not taken for lost
            attempt.heartbeat_at = func.clock_timestamp()
        return Paused(f"Work is paused ({name}). Ask again later.", retry_after_seconds=HOLD_SECONDS)

    async def _shared(self, attempt: Attempt, message: RunStart) -> Attempt:
        """The attempt that a flow run means which was retried in Prefect's UI: its parameters name its first one."""
        if attempt.flow_run_id != message.flow_run_id or message.run_count == 1:
            return attempt
        newest = await Runs(self.session).newest_attempt(attempt.run_id)
        shares = newest.flow_run_id == message.flow_run_id and message.run_count >= (newest.run_count or 1)
        return newest if shares else attempt

    async def _retried(self, run: Run, attempt: Attempt, message: RunStart) -> Attempt | None:
        """Retry in Prefect's UI: the flow run of the newest attempt begins anew, as an attempt of its own.

        Where the attempt still counts as started, its process is gone, or Prefect would not have begun it anew.
        """
        runs = Runs(self.session)
        again = attempt.flow_run_id == message.flow_run_id and message.run_count > (attempt.run_count or 1)
        if not again or not await self._is_newest(attempt):
            return None
        if attempt.state is AttemptState.STARTED:
            end_attempt(self.session, attempt, AttemptEvent.FENCED)
            await NodeStates(self.session).reset_unfinished(run.run_id)
        elif run.state is RunState.FAILED:
            await self._reopen_for_retry(run, attempt)
        else:
            return None
        tell(self.session, run, "attempt.retried", attempt=attempt.number, actor=PREFECT.client_id)
        await self.session.flush()  # the old attempt must have left the live ones before the next one joins them
        new = await runs.adopted_attempt(run.run_id, attempt.number + 1, message.flow_run_id)
        await self.session.flush()
        return new

    async def _retried_child(self, run: Run, attempt: Attempt, message: RunStart) -> Reopened | None:
        """Retry in Prefect's UI on a segment of a run that failed: the run opens again, and sends what is left anew.

        The segment itself ends: were it to wait here, it might hold the very slot that its successor needs.
        """
        if message.run_count == 1 or run.state is not RunState.FAILED or not await self._is_newest(attempt):
            return None
        await self._reopen_for_retry(run, attempt)
        tell(
            self.session,
            run,
            "attempt.retried",
            attempt=attempt.number,
            segment=message.segment,
            actor=PREFECT.client_id,
        )
        await Runs(self.session).add_attempt(run.run_id, attempt.number + 1)
        return Reopened(f"This segment is superseded: its run was reopened as attempt {attempt.number + 1}.")

    async def _is_newest(self, attempt: Attempt) -> bool:
        return attempt.number == (await Runs(self.session).newest_attempt(attempt.run_id)).number

    async def _reopen_for_retry(self, run: Run, attempt: Attempt) -> None:
        """Bring a failed run and the later ones that ended early back to pending, with what they remember."""
        request = await found_request(self.session, run.request_id)
        facts = await Assets(self.session).revision_facts(request)
        runs = await Runs(self.session).of_request(run.request_id)
        before = [one.state for one in runs if one.sequence < run.sequence]
        if refusal := rerun_refusal("failed", run.state, facts, before, request.collected):
            raise Fenced(refusal)
        again = reopened("failed", run.sequence, [(one.sequence, one.state) for one in runs])
        for one in (one for one in runs if one.sequence in again):
            reopen(one)
            await NodeStates(self.session).reset_unfinished(one.run_id)
        await Runs(self.session).count_anew(run, attempt.number + 1)
        await RunLifecycle(self.session).reopen(request, run, PREFECT.client_id)
        record(self.session, PREFECT, "rerun", f"run/{run.run_id}", scope="failed", definition="pinned")
        await RunLifecycle(self.session).settle(request)

    async def _claim(self, run: Run, attempt: Attempt, message: RunStart) -> None:
        """The fence: one flow run per attempt. The same one may ask again where it never heard the answer."""
        if attempt.state is AttemptState.STARTED and attempt.flow_run_id == message.flow_run_id:
            return
        is_open = RUN.after(run.state, RunEvent.STARTED) and ATTEMPT.after(attempt.state, AttemptEvent.STARTED)
        if not is_open or attempt.flow_run_id not in {None, message.flow_run_id}:
            raise Fenced(await self._why_not(run, attempt))
        transition(attempt, AttemptEvent.STARTED)
        attempt.flow_run_id = message.flow_run_id
        attempt.run_count = message.run_count
        attempt.heartbeat_at = attempt.started_at = func.clock_timestamp()
        transition(run, RunEvent.STARTED)
        run.started_at = run.started_at or func.clock_timestamp()
        if run.unroutable_since is not None or run.reason == RETRYING:
            run.reason = run.unroutable_pool = run.unroutable_since = run.unroutable_why = None
        tell(self.session, run, "attempt.started", attempt=attempt.number, flow_run_id=str(message.flow_run_id))

    async def _why_not(self, run: Run, attempt: Attempt) -> str:
        """Why a flow run is given no work, and what would be right, for whoever reads it in Prefect."""
        newest = await Runs(self.session).newest_attempt(run.run_id)
        if attempt.number < newest.number:
            return f"Attempt {attempt.number} was superseded by attempt {newest.number}; the run is {run.state.value}."
        if attempt.state in {AttemptState.FAILED, AttemptState.FENCED}:
            return f"Attempt {attempt.number} is over and the run is {run.state.value}. `cairn rerun` does it again."
        return f"Attempt {attempt.number} is {attempt.state.value}: another flow run has it."
