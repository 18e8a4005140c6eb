"""Creates, finds and stops flow runs in Prefect. The only module of the domain that knows Prefect."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, TypeVar
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterId,
    FlowRunFilterIdempotencyKey,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType, WorkerStatus
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.states import Cancelled, Cancelling, Crashed

from domain.rules.holds import held_places
from domain.rules.reconcile import FlowState
from flows.pools import SEGMENT_FLOW

PERMANENT = range(400, 500)
RETRYABLE_CLIENT_ERRORS = {408, 425, 429}
PAGE = 200
MADE_TOGETHER = 100  # Prefect takes no more in one call
ALONE_SECONDS = 60.0  # after what could not be made together, each is asked for alone for a while
TOGETHER = "/deployments/{id}/create_flow_run/bulk"
MISCONFIGURED = {401, 403, 404}
ANSWER_SECONDS = 20.0  # a busy server takes as long as ten of these
REST_SECONDS = 5.0
NEW = timedelta(seconds=30)  # far more than a flow run takes to its first word, and than two clocks differ
STOPPING = timedelta(seconds=60)  # twice what a worker takes at most to end a run, and then to say so
STATES = {
    StateType.SCHEDULED: FlowState.SCHEDULED,
    StateType.PENDING: FlowState.PENDING,
    StateType.RUNNING: FlowState.RUNNING,
    StateType.PAUSED: FlowState.RUNNING,
    StateType.COMPLETED: FlowState.COMPLETED,
    StateType.FAILED: FlowState.FAILED,
    StateType.CRASHED: FlowState.CRASHED,
    StateType.CANCELLING: FlowState.CANCELLING,
    StateType.CANCELLED: FlowState.CANCELLED,
}
UNDER_WAY = [StateType.PENDING, StateType.RUNNING, StateType.PAUSED, StateType.CANCELLING]
Answer = TypeVar("Answer")


class Unclear(Exception):
    """Prefect did not answer, or not usefully: the run may or may not exist. The same key makes asking again safe."""


class Unanswered(Unclear):
    """Prefect did not answer at all: it is away, or the way to it is."""


class PrefectRefused(Exception):
    """Prefect understood and refused this run: asking again the same way cannot help."""


class PrefectMissing(PrefectRefused):
    """Prefect does not know, or no longer knows, what the call is about."""


class Misconfigured(Unclear):
    """Prefect refuses us or does not know the deployment: a matter of configuration, not of this run."""


@dataclass(frozen=True)
class NewFlowRun:
    """A flow run that is to be: its key makes it one, however often it is asked for."""

    key: str
    name: str
    parameters: dict[str, str]
    tags: list[str]
    queue: str


@dataclass
class PrefectRuns:
    """A client that remembers which deployment is which."""

    _client: PrefectClient = field(default_factory=lambda: get_client(sync_client=False))
    _deployments: dict[str, UUID] = field(default_factory=dict)
    _resting_until: float = field(default=float("-inf"), init=False)
    _alone_until: dict[str, float] = field(default_factory=dict, init=False)

    async def __aenter__(self) -> "PrefectRuns":
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def create(self, deployment: str, wanted: NewFlowRun) -> UUID:
        """Create the flow run of this key, or find the one that was created before."""
        run = await self._ask(
            self._client.create_flow_run_from_deployment(
                await self._deployment_id(deployment),
                parameters=wanted.parameters,
                name=wanted.name,
                tags=wanted.tags,
                idempotency_key=wanted.key,
                work_queue_name=wanted.queue,
            ),
            f"deployment {deployment}",
        )
        return run.id

    async def create_together(self, deployment: str, wanted: Sequence[NewFlowRun]) -> list[UUID] | None:
        """Create these flow runs by one question; None where Prefect did not make all of them.

        Then each is to be asked for alone, which tells what is wrong with it: Prefect makes them in one transaction,
        and where one fails, what it says of the others need not be so. Their keys make that safe.
        """
        if time.monotonic() < self._alone_until.get(deployment, 0.0) or not 1 < len(wanted) <= MADE_TOGETHER:
            return None
        try:
            asked = self._client.request(
                "POST",
                TOGETHER,  # type: ignore[arg-type] # the client's list of routes lacks this one
                path_params={"id": await self._deployment_id(deployment)},
                json=[_as_asked(one) for one in wanted],
            )
            made = _made((await self._ask(asked, f"deployment {deployment}")).json())
        except (Unclear, PrefectRefused, ValueError, TypeError, KeyError):
            made = []
        if len(made) == len(wanted):
            return made
        self._alone_until[deployment] = time.monotonic() + ALONE_SECONDS
        return None

    async def find(self, key: str) -> tuple[UUID | None, FlowState]:
        """The flow run of this key and how it stands. Prefect's silence is an answer too.

        Its index of keys begins with the flow: without it, Prefect reads every flow run there ever was. A key begins
        with the flow's name.
        """
        flow = FlowFilter(name=FlowFilterName(any_=[key.partition("/")[0]]))
        wanted = FlowRunFilter(idempotency_key=FlowRunFilterIdempotencyKey(any_=[key]))
        asked = self._client.read_flow_runs(flow_filter=flow, flow_run_filter=wanted, limit=1)
        try:
            found = await self._ask(asked, f"key {key}")
        except (Unclear, PrefectRefused):
            return None, FlowState.UNKNOWN
        return (found[0].id, _state(found[0])) if found else (None, FlowState.MISSING)

    async def states(self, flow_run_ids: Iterable[UUID]) -> dict[UUID, FlowState]:
        """How flow runs stand, by id. Those that Prefect says nothing of are missing; without an answer, unknown."""
        told: dict[UUID, FlowState] = {}
        wanted = sorted(flow_run_ids)
        for start in range(0, len(wanted), PAGE):
            page = wanted[start : start + PAGE]
            chosen = FlowRunFilter(id=FlowRunFilterId(any_=page))
            try:
                found = await self._ask(self._client.read_flow_runs(flow_run_filter=chosen, limit=PAGE), "flow runs")
            except (Unclear, PrefectRefused):
                told |= dict.fromkeys(page, FlowState.UNKNOWN)
                continue
            told |= dict.fromkeys(page, FlowState.MISSING) | {run.id: _state(run) for run in found}
        return told

    async def stop(self, flow_run_id: UUID, flow: FlowState) -> None:
        """Stop a flow run: its worker does it, or we do at once where no worker has it or answers."""
        state: State[Any] = Cancelling()
        if flow is FlowState.SCHEDULED:
            state = Cancelled()
        elif flow is FlowState.OVERSTAYING:
            state = Cancelled(message="It was told to stop, and nobody was left who would have ended it.")
        with contextlib.suppress(Unclear, PrefectRefused):  # the next sweep asks again
            await self._ask(self._client.set_flow_run_state(flow_run_id, state), f"flow run {flow_run_id}")

    async def end_inside(self, flow_run_ids: Iterable[UUID]) -> bool:
        """End child runs that count as running inside flow runs that are over: their processes are gone.

        False where Prefect did not answer, or has more of them.
        """
        around, all_seen = sorted(flow_run_ids), True
        try:
            while around:
                pages = [
                    await self._under_way_inside(around[start : start + PAGE]) for start in range(0, len(around), PAGE)
                ]
                all_seen = all_seen and all(len(page) < PAGE for page in pages)
                around = [run.id for page in pages for run in page]
                for flow_run_id in around:
                    await self._crash(flow_run_id)
        except (Unclear, PrefectRefused):
            return False
        return all_seen

    async def children_under_way(self) -> dict[UUID, str]:
        """Child runs that a worker took up and that have not ended, with the token of the attempt that each works for.

        Those hold slots of their pools, so there are not many. Where Prefect stops answering, those it has told of.
        """
        found: dict[UUID, str] = {}
        flow = FlowFilter(name=FlowFilterName(any_=[SEGMENT_FLOW]))
        wanted = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=UNDER_WAY)))
        with contextlib.suppress(Unclear, PrefectRefused):
            while True:
                asked = self._client.read_flow_runs(
                    flow_filter=flow, flow_run_filter=wanted, limit=PAGE, offset=len(found)
                )
                page = await self._ask(asked, "child runs")
                found |= {run.id: str(run.parameters.get("attempt_token")) for run in page}
                if len(page) < PAGE:
                    break
        return found

    async def end_child(self, flow_run_id: UUID) -> None:
        """End a child run whose process died before it sent us any message."""
        with contextlib.suppress(Unclear, PrefectRefused):  # the next sweep finds it again
            await self._crash(flow_run_id, "Its attempt is over, and it never began.")

    async def _under_way_inside(self, around: list[UUID]) -> list[FlowRun]:
        """Those that live in the process of the flow run around them: child runs, which have deployments, do not."""
        wanted = FlowRunFilter(
            parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=around),
            deployment_id=FlowRunFilterDeploymentId(is_null_=True),
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=UNDER_WAY)),
        )
        return await self._ask(
            self._client.read_flow_runs(flow_run_filter=wanted, limit=PAGE), "flow runs inside others"
        )

    async def _crash(self, flow_run_id: UUID, why: str = "The flow run around it is over.") -> None:
        ended: State[Any] = Crashed(message=why)
        with contextlib.suppress(PrefectMissing):
            await self._ask(self._client.set_flow_run_state(flow_run_id, ended, force=True), f"flow run {flow_run_id}")

    async def online_workers(self, pool: str) -> frozenset[str] | None:
        """Names of the workers that Prefect hears of for this pool; None where it does not answer."""
        call = self._client.read_workers_for_work_pool(pool, limit=PAGE)
        try:
            found = await self._ask(call, f"workers of {pool}")
        except (Unclear, PrefectRefused) as error:
            no_such_pool = (
                getattr(getattr(error.__cause__, "response", None), "status_code", None) == httpx.codes.NOT_FOUND
            )
            return frozenset() if no_such_pool else None
        return frozenset(worker.name for worker in found if worker.status is WorkerStatus.ONLINE)

    async def held_places(self) -> Mapping[str, str] | None:
        """Return which pools and queues are paused or have a limit of 0, and which of it; None without an answer."""
        try:
            pools = await self._ask(self._client.read_work_pools(limit=PAGE), "work pools")
            queues = await self._ask(self._client.read_work_queues(limit=PAGE), "work queues")
        except (Unclear, PrefectRefused):
            return None
        return held_places([vars(pool) for pool in pools], [vars(queue) for queue in queues])

    async def _ask(self, call: Coroutine[Any, Any, Answer], about: str) -> Answer:
        """Return Prefect's answer, or raise which kind of failure it gave.

        Its client asks again by itself, for minutes and without a word: who asks here has others to see to. Where it
        has just given none, nobody asks for a moment, or a sweep would wait once for each of its attempts.
        """
        if time.monotonic() < self._resting_until:
            call.close()
            raise Unclear("Prefect gave no answer a moment ago.")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await _translate_failures(call, about)
        except TimeoutError:
            self._resting_until = time.monotonic() + REST_SECONDS
            raise Unclear(f"Prefect gave no answer for {about} in {ANSWER_SECONDS:g} s.") from None
        except Unanswered:
            self._resting_until = time.monotonic() + REST_SECONDS
            raise

    async def _deployment_id(self, deployment: str) -> UUID:
        if deployment not in self._deployments:
            try:
                found = await self._ask(self._client.read_deployment_by_name(deployment), f"deployment {deployment}")
            except PrefectMissing as error:
                raise Misconfigured(f"There is no deployment {deployment!r} yet. Run `cairn deploy`.") from error
            self._deployments[deployment] = found.id
        return self._deployments[deployment]

    def forget(self, deployment: str) -> None:
        """Forget the deployment's id: the deployment may have been made again under another one."""
        self._deployments.pop(deployment, None)


def _as_asked(wanted: NewFlowRun) -> dict[str, Any]:
    told = asdict(wanted)
    return {"idempotency_key": told.pop("key"), "work_queue_name": told.pop("queue"), **told}


def _made(answer: Any) -> list[UUID]:
    """The ids of the flow runs that are there, in the order in which they were asked for."""
    return [UUID(one["flow_run_id"]) for one in answer["results"] if one["status"] == "CREATED"]


def _state(run: FlowRun) -> FlowState:
    if run.state is None:
        return FlowState.UNKNOWN
    age, told = datetime.now(UTC) - run.state.timestamp, STATES[run.state.type]
    if told is FlowState.CANCELLING and age > STOPPING:
        return FlowState.OVERSTAYING
    return FlowState.BEGINNING if age < NEW and told in {FlowState.PENDING, FlowState.RUNNING} else told


async def _translate_failures(call: Awaitable[Answer], about: str) -> Answer:
    try:
        return await call
    except PrefectHTTPStatusError as error:
        status = error.response.status_code
        if status in MISCONFIGURED:
            raise Misconfigured(f"Prefect answered {status} for {about}.") from error
        if status in PERMANENT and status not in RETRYABLE_CLIENT_ERRORS:
            raise PrefectRefused(f"Prefect answered {status} for {about}.") from error
        raise Unclear(f"Prefect answered {status}.") from error
    except ObjectNotFound as error:
        raise PrefectMissing(f"Prefect knows no {about}.") from error
    except httpx.HTTPError as error:
        raise Unanswered(f"Prefect did not answer: {type(error).__name__}.") from error
    except Exception as error:  # what its client makes of an answer that it cannot read; nothing follows from it
        raise Unclear(f"Prefect's answer for {about} makes no sense: {type(error).__name__}.") from error
