"""What flow runs tell us, and what follows: start, heartbeat, commit, fail, loss. All of it fenced by tokens."""

from dataclasses import dataclass
from typing import Any, assert_never
from uuid import UUID

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.runs import (
    Commit,
    Fail,
    Outcome,
    RunProblem,
    RunStart,
    WorkOrder,
)
from domain.errors import Fenced, NotFound, Paused, Reopened
from domain.models import Attempt, Request, Run
from domain.repositories.assets import Assets
from domain.repositories.callbacks import Callbacks
from domain.repositories.controls import Controls
from domain.repositories.exports import Exports
from domain.repositories.requests import Requests
from domain.repositories.runs import Runs
from domain.repositories.sweep import Suspect, Sweep
from domain.rules.control import rerun_refusal
from domain.rules.lifecycle import (
    ATTEMPT,
    RUN,
    AttemptEvent,
    AttemptState,
    RequestState,
    RunEvent,
    RunState,
    next_state,
    request_state,
    starts_in_vain,
)
from domain.rules.reconcile import Action, FlowState, Patience, decide
from domain.services.audit import PREFECT, THE_SERVICE, record
from domain.services.orders import work_order
from domain.services.steps import queue_ready, result_of
from domain.services.wording import EXHAUSTED, NO_OUTCOME, partner_problem, why_lost
from flows.compiler.expressions import ExpressionError

HOLD_SECONDS = 5
MOST_HAND_OVERS = 20
ENDED_SILENTLY = "ended-without-outcome"


@dataclass(frozen=True)
class RunLifecycle:
    """All of a run's transitions."""

    session: AsyncSession
    max_attempts: int = 3

    async def start(self, run_id: UUID, message: RunStart, heartbeat_seconds: float) -> WorkOrder | Reopened | Paused:
        """Give a flow run its work, if the attempt it names is the live one and not another flow run's.

        A refusal that is returned, not raised, has changed something that must be kept.
        """
        self.session.info["unit"] = "start"
        run, attempt = await self._fenced(run_id, message.attempt_token)
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
        request = await self._request(run)
        if request.status is RequestState.PENDING:
            await self._set_request_status(request, RequestState.PROCESSING)
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
            self._end_attempt(attempt, AttemptEvent.FENCED)
            await runs.reset_unfinished(run.run_id)
        elif run.state is RunState.FAILED:
            await self._reopen_for_retry(run, attempt)
        else:
            return None
        self._record(run, "attempt.retried", attempt=attempt.number, actor=PREFECT.client_id)
        await self.session.flush()  # the old attempt must have left the live ones before the next one joins them
        new = runs.new_attempt(run.run_id, attempt.number + 1)
        new.state = AttemptState.SENT
        new.flow_run_id = message.flow_run_id
        await self.session.flush()
        return new

    async def _retried_child(self, run: Run, attempt: Attempt, message: RunStart) -> Reopened | None:
        """Retry in Prefect's UI on a segment of a run that failed: the run opens again, and sends what is left anew.

        The segment itself ends: were it to wait here, it might hold the very slot that its successor needs.
        """
        if message.run_count == 1 or run.state is not RunState.FAILED or not await self._is_newest(attempt):
            return None
        await self._reopen_for_retry(run, attempt)
        self._record(run, "attempt.retried", attempt=attempt.number, segment=message.segment, actor=PREFECT.client_id)
        Runs(self.session).add_attempt(run.run_id, attempt.number + 1)
        return Reopened(f"This segment is superseded: its run was reopened as attempt {attempt.number + 1}.")

    async def _is_newest(self, attempt: Attempt) -> bool:
        return attempt.number == (await Runs(self.session).newest_attempt(attempt.run_id)).number

    async def _reopen_for_retry(self, run: Run, attempt: Attempt) -> None:
        """Bring a failed run and the later ones that it had cancelled back to pending, with what they remember."""
        asked = await Requests(self.session).get(run.request_id)
        facts = await Assets(self.session).revision_facts(asked) if asked else None
        if refusal := rerun_refusal("failed", run.state, facts):
            raise Fenced(refusal)
        for one in [run, *await Runs(self.session).cancelled_after(run.request_id, run.sequence)]:
            one.state = RunState.PENDING
            one.problem = one.reason = one.finished_at = None
            await Runs(self.session).reset_unfinished(one.run_id)
        run.first_attempt, run.hand_overs = attempt.number + 1, 0
        request = await self._request(run)
        request.problem = request.finished_at = None
        self._record(run, "request.reopened", actor=PREFECT.client_id)
        record(self.session, PREFECT, "rerun", f"run/{run.run_id}", scope="failed", definition="pinned")
        await self._settle_request(request)

    async def go_on(self, request: Request) -> None:
        """Queue what waits for nothing any more, then bring the request to what its runs say. Its lock is held."""
        await self.session.flush()
        for refused in await queue_ready(self.session, request):
            problem = RunProblem(code="step-inputs-invalid", message=f"Step {refused.run.step_id}: {refused.reason}")
            await self._fail_run(refused.run, problem)
        await self._settle_request(request)

    async def _claim(self, run: Run, attempt: Attempt, message: RunStart) -> None:
        """The fence: one flow run per attempt. The same one may ask again where it never heard the answer."""
        if attempt.state is AttemptState.STARTED and attempt.flow_run_id == message.flow_run_id:
            return
        started = next_state(ATTEMPT, attempt.state, AttemptEvent.STARTED)
        running = next_state(RUN, run.state, RunEvent.STARTED)
        if started is None or running is None or attempt.flow_run_id not in {None, message.flow_run_id}:
            raise Fenced(await self._why_not(run, attempt))
        attempt.state = started
        attempt.flow_run_id = message.flow_run_id
        attempt.run_count = message.run_count
        attempt.heartbeat_at = func.clock_timestamp()
        run.state = running
        run.started_at = run.started_at or func.clock_timestamp()
        if run.unroutable_since is not None:
            run.reason = run.unroutable_pool = run.unroutable_since = None
        Requests(self.session).add_event(
            run.request_id,
            "attempt.started",
            run_id=run.run_id,
            attempt=attempt.number,
            flow_run_id=str(message.flow_run_id),
        )

    async def _why_not(self, run: Run, attempt: Attempt) -> str:
        """Why a flow run is given no work, and what would be right, for whoever reads it in Prefect."""
        newest = await Runs(self.session).newest_attempt(run.run_id)
        if attempt.number < newest.number:
            return f"Attempt {attempt.number} was superseded by attempt {newest.number}; the run is {run.state.value}."
        if attempt.state in {AttemptState.FAILED, AttemptState.FENCED}:
            return f"Attempt {attempt.number} is over and the run is {run.state.value}. `cairn rerun` does it again."
        return f"Attempt {attempt.number} is {attempt.state.value}: another flow run has it."

    async def commit(self, run_id: UUID, message: Commit) -> Outcome:
        """Accept a run's outcome, once. The last run of a request completes the request, in this transaction."""
        self.session.info["unit"] = "commit"
        run, attempt = await self._fenced(run_id, message.attempt_token)
        if attempt.state is AttemptState.COMMITTED:  # the answer was lost on its way: say it again
            return Outcome(run_id=run_id, state=run.state.value)
        self._end_attempt(attempt, AttemptEvent.COMMITTED)
        request = await self._request(run)
        run.state = RunState.COMPLETED
        run.reason = run.unroutable_pool = run.unroutable_since = None  # it found its pool after all
        run.outputs = message.outputs
        run.finished_at = func.clock_timestamp()
        await Runs(self.session).put_artifacts(run, request, message.artifacts)
        if request.is_internal:
            await Exports(self.session).publish(request.request_id, message.outputs)
        self._record(run, "run.completed", attempt=attempt.number, artifacts=len(message.artifacts))
        if request.status is RequestState.PROCESSING:
            await self.go_on(request)
        else:  # a run beside this one has failed: what would have come next does not
            await self._cancel_later(run)
        return Outcome(run_id=run_id, state=run.state.value)

    async def fail(self, run_id: UUID, message: Fail) -> Outcome:
        """Accept a run's failure. Work that failed stays failed; what machinery or operators ended goes its own way."""
        run, attempt = await self._fenced(run_id, message.attempt_token)
        if attempt.state is AttemptState.FAILED:
            return Outcome(run_id=run_id, state=run.state.value)
        self._end_attempt(attempt, AttemptEvent.FAILED)
        attempt.problem = message.problem.model_dump(mode="json")
        match message.verdict:
            case "failed":
                await self._fail_run(run, message.problem)
            case "lost":
                await self._reattempt_or_park(run, attempt, message.problem.message)
            case "handed-over":
                await self._hand_over(run, attempt, message.problem.message)
            case "cancelled":
                await self._cancelled_in_prefect(run)
            case _:
                assert_never(message.verdict)
        return Outcome(run_id=run_id, state=run.state.value)

    async def reconcile(self, suspect: Suspect, flow: FlowState, patience: Patience) -> Action:
        """Judge an attempt again under its locks, and do what the table says: it may have spoken since the look."""
        run, attempt = await self._fenced(suspect.run_id, suspect.token)
        facts = await Sweep(self.session).again(suspect)
        action = decide(facts, flow, patience)
        if action is Action.CANCEL:
            await self._cancelled_in_prefect(run)
        if action is Action.FAIL_ENDED:
            attempt.problem = RunProblem(code=ENDED_SILENTLY, message=NO_OUTCOME).model_dump(mode="json")
        if action in {Action.LOSE, Action.FAIL_ENDED}:
            self._end_attempt(attempt, AttemptEvent.FENCED)
            await self._reattempt_or_park(run, attempt, why_lost(facts, flow))
        if action is Action.LOSE and flow is FlowState.MISSING:
            details = {"flow_run_id": str(suspect.flow_run_id), "attempt": attempt.number}
            record(self.session, THE_SERVICE, "flow-run.missing", f"run/{run.run_id}", **details)
        return action

    async def refuse_dispatch(self, run_id: UUID, token: str, reason: str) -> None:
        """Park a run that Prefect will not take: asking again the same way cannot help."""
        run, _ = await self._fenced(run_id, token)
        await self.give_up(run, "parked", RunProblem(code="dispatch-refused", message=reason))

    async def give_up(self, run: Run, reason: str, problem: RunProblem) -> None:
        """Fail a run for a reason of ours, and fence what there is of it."""
        if attempt := await Runs(self.session).live_attempt(run.run_id):
            self._end_attempt(attempt, AttemptEvent.FENCED)
        run.reason = reason
        await self._fail_run(run, problem)

    async def cancel_request(self, request: Request, actor: str) -> None:
        """Cancel what is still open of a request and fence its attempts. Nothing happens to a finished request."""
        for listed in await Runs(self.session).of_request(request.request_id):
            run = await self._run(listed.run_id)  # locked before its attempt, as everywhere
            cancelled = next_state(RUN, run.state, RunEvent.CANCELLED)
            if cancelled is None:
                continue
            if attempt := await Runs(self.session).live_attempt(run.run_id):
                self._end_attempt(attempt, AttemptEvent.FENCED)
            run.state = cancelled
            run.finished_at = func.clock_timestamp()
            self._record(run, "run.cancelled", actor=actor)
        # Read again under its lock: a commit may have completed the request while this waited for the run.
        current = await Requests(self.session).get(request.request_id, lock=True)
        if current and current.status in {RequestState.PENDING, RequestState.PROCESSING}:
            await self._set_request_status(current, RequestState.CANCELLED)

    async def _fenced(self, run_id: UUID, token: str) -> tuple[Run, Attempt]:
        """The run and the attempt of this token. The run is locked first, always: one order, no deadlock."""
        run = await self._run(run_id)
        attempt = await Runs(self.session).attempt(run_id, token)
        if attempt is None:
            raise Fenced("This token belongs to no attempt of the run.")
        return run, attempt

    async def _run(self, run_id: UUID) -> Run:
        run = await Runs(self.session).get(run_id, lock=True)
        if run is None:
            raise NotFound(f"There is no run {run_id}.")
        return run

    async def _request_of(self, run: Run) -> Request:
        """The request, not locked yet: what is cancelled is locked in its own order."""
        request = await Requests(self.session).get(run.request_id)
        if request is None:
            raise NotFound(f"Run {run.run_id} belongs to no request.")
        return request

    async def _request(self, run: Run) -> Request:
        request = await Requests(self.session).get(run.request_id, lock=True)
        if request is None:
            raise NotFound(f"Run {run.run_id} belongs to no request.")
        return request

    def _end_attempt(self, attempt: Attempt, event: AttemptEvent) -> None:
        ended = next_state(ATTEMPT, attempt.state, event)
        if ended is None:
            raise Fenced(f"This attempt is {attempt.state.value}; its outcome is not taken.")
        attempt.state = ended
        attempt.finished_at = func.clock_timestamp()
        if ended is not AttemptState.COMMITTED:
            Runs(self.session).tell_fenced(attempt.run_id)

    async def _cancelled_in_prefect(self, run: Run) -> None:
        """An operator cancelled the flow run where Prefect shows it: the request is cancelled as if ordered here."""
        request = await self._request_of(run)
        await self.session.flush()  # an attempt that has said its last word is no live one
        await self.cancel_request(request, actor=PREFECT.client_id)
        record(self.session, PREFECT, "cancel", f"request/{request.request_id}", run_id=str(run.run_id))

    async def _hand_over(self, run: Run, attempt: Attempt, why: str) -> None:
        """Another worker goes on where this one was told to stop. Endless handing over is a loss like others."""
        if run.hand_overs >= MOST_HAND_OVERS:
            await self._reattempt_or_park(run, attempt, f"handed over {run.hand_overs} times; {why}")
            return
        run.hand_overs += 1
        await self._reattempt(run, attempt, "attempt.handed-over", why)

    async def _reattempt_or_park(self, run: Run, attempt: Attempt, why: str) -> None:
        """Try once more; after the last attempt leave the run to a human, with the reason."""
        used = attempt.number - run.first_attempt + 1 - run.hand_overs
        if used < self.max_attempts:
            await self._reattempt(run, attempt, "attempt.lost", why)
            return
        run.reason = "parked"
        message = f"Given up after {used} attempts; the last one: {why.rstrip('.')}."
        await self._fail_run(run, RunProblem(code=EXHAUSTED, message=message))

    async def _reattempt(self, run: Run, attempt: Attempt, event: str, why: str) -> None:
        run.state = RunState.PENDING
        self._record(run, event, attempt=attempt.number, why=why)
        await self.session.flush()  # the old attempt must have left the live ones before the next one joins them
        await Runs(self.session).reset_unfinished(run.run_id)
        Runs(self.session).add_attempt(run.run_id, attempt.number + 1)

    async def _fail_run(self, run: Run, problem: RunProblem) -> None:
        run.state = RunState.FAILED
        run.problem = problem.model_dump(mode="json")
        run.finished_at = func.clock_timestamp()
        self._record(run, "run.failed", code=problem.code, message=problem.message, node_id=problem.node_id)
        await self._cancel_later(run)
        await self._settle_request(await self._request(run))

    async def _cancel_later(self, run: Run) -> None:
        """Cancel what was queued or waits behind a run whose request has failed. What runs already may end."""
        for later in await Runs(self.session).pending_after(run.request_id, run.sequence):
            if attempt := await Runs(self.session).live_attempt(later.run_id):
                self._end_attempt(attempt, AttemptEvent.FENCED)
            later.state = RunState.CANCELLED
            later.finished_at = func.clock_timestamp()

    async def _settle_request(self, request: Request) -> None:
        """Bring the request to what its runs say. Two runs that end together take turns at the request's row."""
        await self.session.flush()
        runs = await Runs(self.session).of_request(request.request_id)
        status = request_state([run.state for run in runs])
        if status is RequestState.COMPLETED:
            try:
                request.result = result_of(request, runs)
            except ExpressionError as error:
                message = f"What the request returns cannot be made of what its runs returned: {error}"
                await self._fail_run(runs[-1], RunProblem(code="plan-outputs-invalid", message=message))
                return
        if status is RequestState.FAILED:
            request.problem = partner_problem([run for run in runs if run.state is RunState.FAILED])
        if status is not request.status:
            await self._set_request_status(request, status)

    async def _set_request_status(self, request: Request, status: RequestState) -> None:
        request.status = status
        Requests(self.session).tell_changed(request.request_id)
        if status not in {RequestState.PENDING, RequestState.PROCESSING}:
            request.finished_at = func.clock_timestamp()
            await Callbacks(self.session).enqueue(request)
        Requests(self.session).add_event(request.request_id, f"request.{status.value}")
        if request.asset_id is None or request.ordinal is None or request.revision is None:
            return
        revision = await Assets(self.session).revision(request.asset_id, request.ordinal, request.revision)
        if revision is not None:
            revision.processing = status
            if status is RequestState.COMPLETED and request.result is not None:
                revision.outputs = request.result
                revision.content_hash = (request.result.get("validation") or {}).get("sha256")

    def _record(self, run: Run, kind: str, **details: Any) -> None:
        Requests(self.session).add_event(run.request_id, kind, run_id=run.run_id, **details)
