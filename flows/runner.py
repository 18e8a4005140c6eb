"""The scheduler's hands: carries out its decisions as Prefect task runs and child runs, and tells it how they ended."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, assert_never, cast

from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State as PrefectState
from prefect.client.schemas.objects import TaskRun
from prefect.futures import PrefectConcurrentFuture
from prefect.runtime import task_run

from domain.contracts.artifacts import Artifact
from domain.contracts.runs import NodeEvent, RunFacts, RunProblem
from flows import tries
from flows.compiler import (
    Cancelled,
    Decision,
    Event,
    Execute,
    Expand,
    Failed,
    Finished,
    Item,
    ItemCompleted,
    ItemFailed,
    Node,
    NodeCompleted,
    NodeFailed,
    NodeSkipped,
    NodeStarted,
    Outcome,
    RunError,
    Schedule,
    Settled,
    Skipped,
    State,
    StopRunning,
)
from flows.errors import HandlerError
from flows.reporting import Line
from flows.segments import stretch
from flows.storage import Zones
from flows.tries import Try

log = logging.getLogger("cairn.runner")
STOP_POLL_SECONDS = 0.5
ITEMS_AT_ONCE = 32
ITEM_REPORT_STEPS = 50

Verdict = Finished | Failed


class ChildRuns(Protocol):
    """Executes a stretch of the plan on another pool."""

    async def run(self, pool: str, nodes: list[str], known: Mapping[str, Outcome]) -> Mapping[str, Outcome]: ...


@dataclass
class Runner:
    """One flow run's work: a schedule, and the means to carry out what it decides."""

    schedule: Schedule
    facts: RunFacts
    pool: str
    zones: Zones
    line: Line
    children: ChildRuns | None = None
    artifacts: list[Artifact] = field(default_factory=list)
    _activities: set[asyncio.Task[list[Event]]] = field(default_factory=set)
    _elsewhere: set[str] = field(default_factory=set)
    _verdict: Verdict | None = None

    async def run(self) -> Verdict:
        """Carry out decisions until the schedule says that the run is over."""
        self._carry_out(self.schedule.begin())
        try:
            while self._verdict is None:
                await self._next_events()
        finally:
            await self._settle_activities()
        return self._verdict

    async def _next_events(self) -> None:
        done, _ = await asyncio.wait(self._activities, timeout=STOP_POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for activity in done:
            self._activities.discard(activity)
            for event in activity.result():
                self._carry_out(self.schedule.apply(event))
        if self.line.stop.is_set() and self._verdict is None:
            self._carry_out(self.schedule.apply(Cancelled()))

    async def _settle_activities(self) -> None:
        """Let what still runs notice the stop and leave: no thread may outlive its run."""
        self.line.stop.set()
        await asyncio.gather(*self._activities, return_exceptions=True)

    def _carry_out(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            match decision:
                case Execute() | Expand():
                    self._begin(decision)
                case Settled():
                    self._report(decision.node_id, decision.state.value, decision.error)
                case Skipped():
                    self._report(decision.node_id, "skipped", None)
                case StopRunning():
                    self.line.stop.set()
                case Finished() | Failed():
                    self._verdict = decision
                case _:
                    assert_never(decision)

    def _begin(self, decision: Execute | Expand) -> None:
        node = self.schedule.plan.nodes[decision.node_id]
        if node.id in self._elsewhere:  # a child run has it already; its end will be told with the stretch's
            return
        if node.pool and node.pool != self.pool:
            activity = self._delegate(node)
        elif isinstance(decision, Expand):
            activity = self._run_items(node, decision)
        else:
            activity = self._run_node(node, decision)
        self._activities.add(asyncio.create_task(activity))

    # --- here ---

    async def _run_node(self, node: Node, decision: Execute) -> list[Event]:
        self.schedule.apply(NodeStarted(node.id))
        self.line.note(NodeEvent(node_id=node.id, state="running", tries=1))
        outcome, tries_made = await self._run_tries(node, decision.params, None)
        self._report(node.id, outcome.state.value, outcome.error, tries_made)
        return [_node_event(node.id, outcome)]

    async def _run_items(self, node: Node, decision: Expand) -> list[Event]:
        """Every child of a fan-out, at most `max_concurrency` at once; each tells the schedule as it ends."""
        self.schedule.apply(NodeStarted(node.id))
        counts = _Counts(self.line, node.id, decision.count)
        gate = asyncio.Semaphore(min(decision.max_concurrency or ITEMS_AT_ONCE, ITEMS_AT_ONCE))

        async def run_item(item: Item) -> None:
            async with gate:
                if self.line.stop.is_set():
                    return
                outcome, _ = await self._run_tries(node, item.params, item)
            counts.add(outcome)
            self._carry_out(self.schedule.apply(_item_event(node.id, item.index, outcome)))

        counts.report()
        await asyncio.gather(*(run_item(item) for item in decision.items))
        return []

    async def _run_tries(self, node: Node, params: Mapping[str, Any], item: Item | None) -> tuple[Outcome, int]:
        """One Prefect task run, with the node's retries: how it ended, and how many tries that took."""
        assert node.handler is not None  # noqa: S101 - only nodes with a handler are executed here
        name = node.id if item is None else f"{node.id}__{item.index}"
        attempt = Try(
            node_id=name,
            handler=node.handler,
            params=params,
            facts=self.facts,
            timeout_seconds=node.timeout_seconds or 3600.0,
            item_key=item.key if item else None,
        )
        numbers: list[int] = []
        task = _task(node, name, self._body(node, attempt, numbers))
        future = cast("PrefectConcurrentFuture[Any]", task.submit())  # the flow's task runner has threads
        state: PrefectState[Any] = await asyncio.wrap_future(future.wrapped_future)
        result = await state.aresult(raise_on_failure=False)
        if isinstance(result, dict):
            self.artifacts += [Artifact.model_validate(artifact) for artifact in result.get("artifacts") or []]
            return Outcome(State.COMPLETED, result), len(numbers)
        return Outcome(State.FAILED, None, _run_error(result, node.id)), len(numbers)

    def _body(self, node: Node, attempt: Try, numbers: list[int]) -> Callable[[], dict[str, Any]]:
        """What the task run does at each try; the number of each is noted."""
        loop = asyncio.get_running_loop()

        def progress(fraction: float, message: str) -> None:
            """Called from the handler's thread; heartbeats are sent by the loop's."""
            event = NodeEvent(
                node_id=node.id, state="running", fraction=min(max(fraction, 0), 1), message=message[:500]
            )
            loop.call_soon_threadsafe(self.line.note, event)

        def body() -> dict[str, Any]:
            numbers.append((task_run.run_count or 1) - 1)
            numbered = replace(attempt, number=numbers[-1])
            is_item = attempt.item_key is not None
            return tries.run(numbered, self.zones, self.line.stop, (lambda *_: None) if is_item else progress)

        return body

    # --- elsewhere ---

    async def _delegate(self, node: Node) -> list[Event]:
        """Have the whole stretch that begins here executed by one child run on its pool."""
        settled = [name for name, state in self.schedule.states.items() if state.is_terminal]
        nodes = stretch(self.schedule.plan, node.id, settled)
        self._elsewhere.update(nodes)
        if self.children is None or node.pool is None:
            error = RunError("wrong-pool", f"Node {node.id} belongs on pool {node.pool}; this is {self.pool}.", node.id)
            return [NodeFailed(node.id, error)]
        outcomes = await self.children.run(node.pool, nodes, self.schedule.outcomes)
        return [_node_event(name, outcomes[name]) for name in nodes if name in outcomes]

    def _report(self, node_id: str, state: str, error: RunError | None, tries_made: int | None = None) -> None:
        problem = run_problem(error) if error else None
        event = {"node_id": node_id, "state": state, "problem": problem, "tries": tries_made}
        self.line.note(NodeEvent.model_validate(event))


@dataclass
class _Counts:
    """How far a fan-out is. Told in steps: a fan-out of thousands must not send thousands of messages."""

    line: Line
    node_id: str
    total: int
    done: int = 0
    failed: int = 0

    def add(self, outcome: Outcome) -> None:
        if outcome.state is State.COMPLETED:
            self.done += 1
        else:
            self.failed += 1
        if (self.done + self.failed) % max(1, self.total // ITEM_REPORT_STEPS) == 0:
            self.report()

    def report(self) -> None:
        self.line.note(
            NodeEvent(
                node_id=self.node_id,
                state="running",
                items_total=self.total,
                items_done=self.done,
                items_failed=self.failed,
            )
        )


def _task(node: Node, name: str, body: Callable[[], dict[str, Any]]) -> Task[[], dict[str, Any]]:
    """The Prefect task of one node or item: named after it, retried as it says."""
    delays = list(node.retry.delays())
    return Task(
        fn=body,
        name=node.id,
        task_run_name=name,
        tags=[tag for tag in (node.pool, node.handler) if tag],
        retries=len(delays),
        retry_delay_seconds=delays or None,
        retry_condition_fn=_worth_another_try,
        cache_policy=NO_CACHE,
        persist_result=False,
        log_prints=False,
    )


def _worth_another_try(_task: Task[..., Any], _run: TaskRun, state: PrefectState[Any]) -> bool:
    """Whether a failed try may be repeated: what the partner got wrong stays wrong."""
    error = state.data
    error = getattr(error, "result", error)
    return not isinstance(error, HandlerError) or error.retryable


def _run_error(error: object, node_id: str) -> RunError:
    if isinstance(error, HandlerError):
        return RunError(error.code, str(error), node_id, tries.partner_may_read(error))
    return RunError("handler-failed", f"{type(error).__name__}: {error}", node_id)


def run_problem(error: RunError) -> RunProblem:
    """A scheduler's error as the domain takes it."""
    return RunProblem(
        code=error.code, message=error.message[:4000], node_id=error.node_id, partner_may_read=error.partner_may_read
    )


def _node_event(node_id: str, outcome: Outcome) -> Event:
    if outcome.state is State.COMPLETED:
        return NodeCompleted(node_id, outcome.output)
    if outcome.state is State.SKIPPED:
        return NodeSkipped(node_id)
    return NodeFailed(node_id, outcome.error or RunError("handler-failed", "The node failed.", node_id))


def _item_event(node_id: str, index: int, outcome: Outcome) -> Event:
    if outcome.state is State.COMPLETED:
        return ItemCompleted(node_id, index, outcome.output)
    return ItemFailed(node_id, index, outcome.error or RunError("handler-failed", "The item failed.", node_id))
