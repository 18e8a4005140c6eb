"""Says of runs that nobody serves the pool they wait for, takes it back, and gives up in the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from domain.contracts.runs import RunProblem
from domain.errors import NotFound
from domain.models import Run
from domain.repositories.listening import ListeningSpans
from domain.repositories.pools import Pools, Waits
from domain.repositories.requests import Requests
from domain.repositories.runs import Runs
from domain.rules.lifecycle import OPEN_RUNS
from domain.rules.listening import Moment
from domain.rules.routing import PoolNotice, gap_seconds, judge, may_judge, too_large_in_words
from domain.services.runs.endings import HANDLER_MISSING, RunLifecycle
from domain.services.runs.fence import locked_run

UNROUTABLE = "unroutable"
MOST_NAMED = 20


@dataclass(frozen=True)
class Routing:
    session: AsyncSession
    silence_seconds: float
    allowed_seconds: float

    async def waiting(self) -> Sequence[Waits]:
        """What is to be judged: nothing, until every worker would have been heard of since we listen."""
        moment = await self._moment()
        if not may_judge(moment.seconds, self.silence_seconds):
            return []
        return await Pools(self.session).waiting(self.silence_seconds, moment)

    async def act(self, run_id: UUID) -> PoolNotice:
        """Judge the run again under its lock, and do what follows: it may have begun or ended since the look."""
        try:
            _, run = await locked_run(self.session, run_id)
        except NotFound:
            return PoolNotice.LEAVE
        moment = await self._moment()
        if not may_judge(moment.seconds, self.silence_seconds):
            return PoolNotice.LEAVE
        waits = await Pools(self.session).waits(run_id, self.silence_seconds, moment)
        step = judge(
            waits.pool is not None, waits.marked_seconds, self.allowed_seconds, is_awaiting=waits.awaits is not None
        )
        if step is PoolNotice.MARK:
            run.reason, run.unroutable_pool, run.unroutable_since = UNROUTABLE, waits.pool, func.clock_timestamp()
            run.unroutable_why = _too_large(waits)
            self._tell(run, "run.unroutable")
        if step is PoolNotice.RELEASE:
            await Runs(self.session).release(run_id)
        if step is PoolNotice.CLEAR or (step is PoolNotice.RELEASE and waits.marked_seconds is not None):
            self._clear(run)
        if step is PoolNotice.FAIL:
            await RunLifecycle(self.session).give_up(run, UNROUTABLE, _why(waits))
            run.unroutable_pool = run.unroutable_since = run.unroutable_why = None
        return step

    async def _moment(self) -> Moment:
        return await ListeningSpans(self.session).moment(gap_seconds(self.silence_seconds))

    def _clear(self, run: Run) -> None:
        if run.state in OPEN_RUNS:
            self._tell(run, "run.routable")
            run.reason = None
        elif run.reason == UNROUTABLE:  # it ended as something else while it waited
            run.reason = None
        run.unroutable_pool = run.unroutable_since = run.unroutable_why = None

    def _tell(self, run: Run, kind: str) -> None:
        why = {"why": run.unroutable_why} if run.unroutable_why else {}
        Requests(self.session).add_event(run.request_id, kind, run_id=run.run_id, pool=run.unroutable_pool, **why)


def _too_large(waits: Waits) -> str | None:
    return too_large_in_words(waits.pool or "", waits.needs, waits.largest)


def _why(waits: Waits) -> RunProblem:
    """Why the run is given up."""
    if too_large := _too_large(waits):
        return RunProblem(code=UNROUTABLE, message=f"{too_large} Start a worker on a larger host, rerun.")
    if waits.awaits is None:
        message = f"No worker has served the pool {waits.pool} for {waits.marked_seconds:.0f} s. Start one, rerun."
        return RunProblem(code=UNROUTABLE, message=message)
    named = ", ".join(waits.awaits[:MOST_NAMED]) + (" and others" if len(waits.awaits) > MOST_NAMED else "")
    message = (
        f"No worker of the pool {waits.pool} has had the handlers {named} for {waits.marked_seconds:.0f} s. "
        "Start workers of the release that published the workflow, rerun."
    )
    return RunProblem(code=HANDLER_MISSING, message=message)
