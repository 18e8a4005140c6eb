"""How runs end, and what follows for their request: commit, failure, loss, cancellation. All of it fenced by tokens."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never
from uuid import UUID

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from domain.after_commit import after_commit
from domain.contracts.runs import (
    Commit,
    Fail,
    Outcome,
    RunProblem,
)
from domain.models import Attempt, Request, Run
from domain.models.transitions import follow, transition
from domain.repositories.assets import Assets
from domain.repositories.callbacks import Callbacks
from domain.repositories.exports import Exports
from domain.repositories.node_states import NodeStates
from domain.repositories.requests import Requests
from domain.repositories.run_metrics import RunMetrics
from domain.repositories.runs import Runs
from domain.repositories.sweep import Suspect, Sweep
from domain.rules.backoff import FIRST_SECONDS, pause_seconds
from domain.rules.blame import is_given_up
from domain.rules.lifecycle import (
    ENDED_REQUESTS,
    REQUEST,
    RUN,
    AttemptEvent,
    AttemptState,
    RequestEvent,
    RequestState,
    RunEvent,
    RunState,
    request_event,
)
from domain.rules.places import foreign_artifact, foreign_output, home
from domain.rules.reconcile import Action, FlowState, Patience, decide
from domain.services.lookups import found_request
from domain.services.operations.audit import PREFECT, THE_SERVICE, record
from domain.services.runs.fence import end_attempt, fenced, tell
from domain.services.runs.steps import queue_ready, result_of
from domain.services.runs.wording import EXHAUSTED, NO_OUTCOME, partner_problem, why_lost
from domain.services.runs.work_order import needed_handlers, run_facts
from flows.compiler.expressions import ExpressionError

MOST_HAND_OVERS = 20
CHILD_LOST = "child-run-lost"  # said by a parent whose child run's process is gone
HANDLER_MISSING = "handler-missing"  # said by a worker whose image is of another release
ENDED_SILENTLY = "ended-without-outcome"
RETRYING = "retrying"  # the reason of a run whose next attempt has not begun
LOST = "attempt.lost"


@dataclass(frozen=True)
class RunLifecycle:
    """All of a run's transitions but the first, which `starts` has."""

    session: AsyncSession
    max_attempts: int = 3
    pause_seconds: float = FIRST_SECONDS  # before the second attempt

    async def go_on(self, request: Request) -> None:
        """Queue what waits for nothing any more, then bring the request to what its runs say. Its lock is held."""
        await self.session.flush()
        refused = await queue_ready(self.session, request)
        for unfit in refused:
            problem = RunProblem(code="step-inputs-invalid", message=f"Step {unfit.run.step_id}: {unfit.reason}")
            self._failed(unfit.run, problem)
        for unfit in refused:
            await self._cancel_later(unfit.run)
        await self.settle(request)

    async def commit(self, run_id: UUID, message: Commit) -> Outcome:
        """Accept a run's outcome, once. The last run of a request completes the request, in this transaction."""
        after_commit(self.session).failpoint = "commit"
        run, attempt = await fenced(self.session, run_id, message.attempt_token)
        if attempt.state is AttemptState.COMMITTED:  # the answer was lost on its way: say it again
            return Outcome(run_id=run_id, state=run.state.value)
        request = await found_request(self.session, run.request_id)
        if problem := _foreign(run, request, attempt, message):
            return await self._refuse(run, attempt, problem)
        end_attempt(self.session, attempt, AttemptEvent.COMMITTED)
        transition(run, RunEvent.COMMITTED)
        run.reason = run.unroutable_pool = run.unroutable_since = run.unroutable_why = (
            None  # it found its pool after all
        )
        run.outputs = message.outputs
        run.finished_at = func.clock_timestamp()
        await Runs(self.session).put_artifacts(run, request, message.artifacts)
        await RunMetrics(self.session).put(run, message.metrics)
        if request.is_internal:
            await Exports(self.session).publish(request.request_id, message.outputs)
        tell(self.session, run, "run.completed", attempt=attempt.number, artifacts=len(message.artifacts))
        if request.status is RequestState.PROCESSING:
            await self.go_on(request)
        else:  # a run beside this one has failed: what would have come next does not
            await self._cancel_later(run)
        return Outcome(run_id=run_id, state=run.state.value)

    async def _refuse(self, run: Run, attempt: Attempt, problem: RunProblem) -> Outcome:
        """Take nothing of an outcome that names what is not the run's own."""
        end_attempt(self.session, attempt, AttemptEvent.FAILED)
        attempt.problem = problem.model_dump(mode="json")
        record(self.session, THE_SERVICE, "commit.refused", f"run/{run.run_id}", attempt=attempt.number)
        await self._fail_run(run, problem)
        return Outcome(run_id=run.run_id, state=run.state.value)

    async def fail(self, run_id: UUID, message: Fail) -> Outcome:
        """Accept a run's failure. Work that failed stays failed; what machinery or operators ended goes its own way."""
        run, attempt = await fenced(self.session, run_id, message.attempt_token)
        if attempt.state is AttemptState.FAILED:
            return Outcome(run_id=run_id, state=run.state.value)
        end_attempt(self.session, attempt, AttemptEvent.FAILED)
        attempt.problem = message.problem.model_dump(mode="json")
        await RunMetrics(self.session).put(run, message.metrics)
        match message.verdict:
            case "failed":
                await self._fail_run(run, message.problem)
            case "lost" if message.problem.code == HANDLER_MISSING:
                await self._await_worker(run, attempt, message.problem.message)
            case "lost" if message.problem.code == CHILD_LOST:
                await self._after_vanishing(run, attempt, message.problem.message)
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
        run, attempt = await fenced(self.session, suspect.run_id, suspect.token)
        facts = await Sweep(self.session, patience).again(suspect)
        action = decide(facts, flow, patience)
        if action is Action.CANCEL:
            await self._cancelled_in_prefect(run)
        if action is Action.FAIL_ENDED:
            attempt.problem = RunProblem(code=ENDED_SILENTLY, message=NO_OUTCOME).model_dump(mode="json")
        if action in {Action.LOSE, Action.FAIL_ENDED}:
            end_attempt(self.session, attempt, AttemptEvent.FENCED)
            why = why_lost(facts, flow)
            if not facts.has_begun:
                await self._send_anew(run, attempt, why)
            elif action is Action.LOSE:
                await self._after_vanishing(run, attempt, why)
            else:
                await self._reattempt_or_park(run, attempt, why)
        if action is Action.LOSE and flow is FlowState.MISSING:
            details = {"flow_run_id": str(suspect.flow_run_id), "attempt": attempt.number}
            record(self.session, THE_SERVICE, "flow-run.missing", f"run/{run.run_id}", **details)
        return action

    async def refuse_dispatch(self, run_id: UUID, token: str, reason: str) -> None:
        """Park a run that Prefect will not take: asking again the same way cannot help."""
        run, attempt = await fenced(self.session, run_id, token)
        end_attempt(self.session, attempt, AttemptEvent.FENCED)  # over already: then nobody waits for it any more
        await self.session.flush()
        await self.give_up(run, "parked", RunProblem(code="dispatch-refused", message=reason))

    async def give_up(self, run: Run, reason: str, problem: RunProblem) -> None:
        """Fail a run for a reason of ours, and fence what there is of it. The caller has locked request and run."""
        if attempt := await Runs(self.session).live_attempt(run.run_id):
            end_attempt(self.session, attempt, AttemptEvent.FENCED)
        run.reason = reason
        await self._fail_run(run, problem)

    async def cancel_request(self, request: Request, actor: str) -> None:
        """Cancel what is still open of a request and fence its attempts. Nothing happens to a finished request."""
        current = await Requests(self.session).get(request.request_id, lock=True)  # it may have ended since it was read
        for run in await Runs(self.session).locked_of_request(request.request_id):
            if RUN.after(run.state, RunEvent.CANCELLED) is not None:
                await self._cancel(run)
                tell(self.session, run, "run.cancelled", actor=actor)
        if current and REQUEST.after(current.status, RequestEvent.CANCELLED) is not None:
            await self.enter(current, RequestEvent.CANCELLED)

    async def _cancelled_in_prefect(self, run: Run) -> None:
        """An operator cancelled the flow run where Prefect shows it: the request is cancelled as if ordered here."""
        request = await found_request(self.session, run.request_id)
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

    async def _send_anew(self, run: Run, attempt: Attempt, why: str) -> None:
        """What never began counts against nothing. A run that no process ever begins is left to a human in the end."""
        if run.hand_overs >= MOST_HAND_OVERS:
            message = f"Nothing has begun it in {run.hand_overs + 1} attempts; of the last one {why.rstrip('.')}."
            await self._park(run, message)
            return
        run.hand_overs += 1
        await self._reattempt(run, attempt, "attempt.not-begun", why)

    async def _await_worker(self, run: Run, attempt: Attempt, why: str) -> None:
        """Leave the run to a worker of the right release: no try of it, the one that refused has done nothing.

        It goes out again once one says that it has the handlers, and rests the longer the more often others were
        quicker. Endless refusing is a loss like others.
        """
        if run.hand_overs >= MOST_HAND_OVERS:
            await self._reattempt_or_park(run, attempt, f"refused {run.hand_overs} times; {why}")
            return
        run.hand_overs += 1
        wanted = await needed_handlers(self.session, run)
        await self._reattempt(run, attempt, "attempt.refused", why, self._pause(run.hand_overs), wanted)

    def _pause(self, ended: int) -> float:
        return pause_seconds(ended, random.random(), self.pause_seconds)  # noqa: S311 - a spread, no secret

    async def _after_vanishing(self, run: Run, attempt: Attempt, why: str) -> None:
        """Try once more where no work of the run was under way, or other work than the last times."""
        used = self._used(run, attempt)
        if is_given_up(used, await Runs(self.session).blame(run.run_id), self.max_attempts):
            await self._give_up_after(used, run, why)
        else:
            await self._reattempt(run, attempt, LOST, why, self._pause(used))

    async def _reattempt_or_park(self, run: Run, attempt: Attempt, why: str) -> None:
        """Try once more; after the last attempt leave the run to a human, with the reason."""
        used = self._used(run, attempt)
        if used < self.max_attempts:
            await self._reattempt(run, attempt, LOST, why, self._pause(used))
        else:
            await self._give_up_after(used, run, why)

    def _used(self, run: Run, attempt: Attempt) -> int:
        return attempt.number - run.first_attempt + 1 - run.hand_overs

    async def _give_up_after(self, used: int, run: Run, why: str) -> None:
        await self._park(run, f"Given up after {used} attempts; the last one: {why.rstrip('.')}.")

    async def _park(self, run: Run, message: str) -> None:
        run.reason = "parked"
        await self._fail_run(run, RunProblem(code=EXHAUSTED, message=message))

    async def _reattempt(
        self,
        run: Run,
        attempt: Attempt,
        event: str,
        why: str,
        pause_seconds: float = 0,
        awaits: Sequence[str] | None = None,
    ) -> None:
        transition(run, RunEvent.ATTEMPT_LOST)
        if event == LOST and run.unroutable_since is None:
            run.reason = RETRYING
        tell(self.session, run, event, attempt=attempt.number, why=why)
        await self.session.flush()  # the old attempt must have left the live ones before the next one joins them
        await NodeStates(self.session).reset_unfinished(run.run_id)
        await Runs(self.session).add_attempt(run.run_id, attempt.number + 1, pause_seconds, awaits)

    async def _fail_run(self, run: Run, problem: RunProblem, event: RunEvent = RunEvent.FAILED) -> None:
        self._failed(run, problem, event)
        await self._cancel_later(run)
        await self.settle(await found_request(self.session, run.request_id))

    def _failed(self, run: Run, problem: RunProblem, event: RunEvent = RunEvent.FAILED) -> None:
        transition(run, event)
        run.problem = problem.model_dump(mode="json")
        run.finished_at = func.clock_timestamp()
        tell(self.session, run, "run.failed", code=problem.code, message=problem.message, node_id=problem.node_id)

    async def _cancel_later(self, run: Run) -> None:
        """Cancel what was queued or waits behind a run whose request has failed. What runs already may end."""
        for later in await Runs(self.session).pending_after(run.request_id, run.sequence):
            await self._cancel(later)

    async def _cancel(self, run: Run) -> None:
        if attempt := await Runs(self.session).live_attempt(run.run_id):
            end_attempt(self.session, attempt, AttemptEvent.FENCED)
        transition(run, RunEvent.CANCELLED)
        run.reason = None if run.reason == RETRYING else run.reason
        run.finished_at = func.clock_timestamp()

    async def reopen(self, request: Request, run: Run, actor: str, **details: str) -> None:
        """Have a request that has ended be worked on again, as runs of it are: this one, and what ended with it."""
        request.problem = request.result = request.finished_at = None
        tell(self.session, run, "request.reopened", actor=actor, **details)
        await self.enter(request, RequestEvent.REOPENED)

    async def settle(self, request: Request) -> None:
        """Bring the request to what its runs say. Its lock is held: two runs that end together take turns."""
        await self.session.flush()
        runs = await Runs(self.session).of_request(request.request_id)
        event = request_event(run.state for run in runs)
        if event is RequestEvent.COMPLETED:
            try:
                request.result = result_of(request, runs)
            except ExpressionError as error:
                message = f"What the request returns cannot be made of what its runs returned: {error}"
                problem = RunProblem(code="plan-outputs-invalid", message=message)
                await self._fail_run(runs[-1], problem, RunEvent.RESULT_REFUSED)
                return
        if event is RequestEvent.FAILED:
            request.problem = partner_problem([run for run in runs if run.state is RunState.FAILED])
        if event is not None:
            await self.enter(request, event)

    async def enter(self, request: Request, event: RequestEvent) -> None:
        """Let the event happen to the request, and tell all who wait for it, if that changes how it stands."""
        before = request.status
        transition(request, event)
        if request.status is before:
            return
        Requests(self.session).tell_changed(request.request_id)
        if request.status in ENDED_REQUESTS:
            request.finished_at = func.clock_timestamp()
            await Callbacks(self.session).enqueue(request)
        Requests(self.session).add_event(request.request_id, f"request.{request.status.value}")
        if request.asset_id is None or request.ordinal is None or request.revision is None:
            return
        revision = await Assets(self.session).revision(request.asset_id, request.ordinal, request.revision)
        if revision is not None:
            follow(revision, request)
            if request.status is RequestState.COMPLETED and request.result is not None:
                revision.outputs = request.result
                revision.content_hash = (request.result.get("validation") or {}).get("sha256")


def _foreign(run: Run, request: Request, attempt: Attempt, message: Commit) -> RunProblem | None:
    """What of an outcome is not the run's own. Copies belong where an internal run was told to make them."""
    told = run.inputs.get("destination") if request.is_internal else None
    copies = told if isinstance(told, str) else None
    own = home(run_facts(run, request, attempt))
    return foreign_artifact(message.artifacts, own, copies) or foreign_output(message.outputs, own)
