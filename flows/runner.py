"""The scheduler's hands: carries out its decisions, here or by child runs, and tells it how they ended."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, assert_never

from prefect.client.schemas.objects import State as PrefectState
from prefect.client.schemas.objects import StateType

from domain.contracts.runs import NodeEvent, RunProblem
from domain.rules.texts import kept
from flows.children import HANDED_OVER, NoWorker
from flows.compiler import (
    Cancelled,
    Decision,
    Event,
    Execute,
    Expand,
    Failed,
    FanOut,
    Finished,
    InputFault,
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
from flows.engine import Engine, Place
from flows.errors import Broken, InvalidInput, Nested, Stopped
from flows.flow_engine import run_inside
from flows.items import Counts, Share, do_items
from flows.patience import TRY_LEAVE_SECONDS, grace_seconds
from flows.segments import shards, stretch
from flows.stopping import Stop
from flows.task_runs import TaskRuns, show_skipped
from flows.values import plain
from flows.work import TIMEOUT_SECONDS, Hands, Work

Verdict = Finished | Failed


@dataclass
class Runner:
    """Runs one plan, or a part of one. The run's own has task runs in Prefect and tells the domain of its nodes.

    A sub-workflow's runner does so where it is a flow run of its own; inside an item of a fan-out it works unseen.
    """

    engine: Engine
    schedule: Schedule
    stop: Stop
    place: Place = field(default_factory=Place)
    visible: bool = True
    _activities: set["asyncio.Task[list[Event]]"] = field(default_factory=set)
    _elsewhere: set[str] = field(default_factory=set)
    _verdict: Verdict | None = None

    def __post_init__(self) -> None:
        self.hands = Hands(self.engine, self.stop, SubWorkflows(self))

    async def run(self) -> Verdict:
        """Carry out decisions until the schedule says that the run is over."""
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        self.stop.on_set(lambda: loop.call_soon_threadsafe(stopped.set))
        waiting = asyncio.create_task(stopped.wait())
        self._carry_out(self.schedule.begin())
        try:
            while self._verdict is None:
                await self._next_events(waiting)
        finally:
            waiting.cancel()
            await self._settle_activities()
        return self._verdict

    async def _next_events(self, stopped: "asyncio.Task[Any]") -> None:
        await asyncio.wait({*self._activities, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for activity in [one for one in self._activities if one.done()]:
            self._activities.discard(activity)
            for event in activity.result():
                self.apply(event)
        if self.stop.is_set() and self._verdict is None:
            self.apply(Cancelled())

    def apply(self, event: Event) -> None:
        """Tell the schedule, and do what it decides."""
        self._carry_out(self.schedule.apply(event))

    async def _settle_activities(self) -> None:
        """Let what still runs notice the stop and leave: no thread may outlive its run. What only waits need not."""
        self.stop.set("over")
        self.hands.cut_waits()
        if self._activities:
            await asyncio.wait(self._activities, timeout=grace_seconds(self.stop.reason) + TRY_LEAVE_SECONDS)
        for activity in self._activities:
            activity.cancel()
        await asyncio.gather(*self._activities, return_exceptions=True)

    def _carry_out(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            match decision:
                case Execute() | Expand():
                    self._begin(decision)
                case Settled():
                    self._report(decision.node_id, decision.state.value, decision.error)
                case Skipped():
                    self._skipped(self.schedule.plan.nodes[decision.node_id])
                case StopRunning():
                    self.stop.set("over")
                case Finished() | Failed():
                    self._verdict = decision
                case _:
                    assert_never(decision)

    def _begin(self, decision: Execute | Expand) -> None:
        node = self.schedule.plan.nodes[decision.node_id]
        if node.id in self._elsewhere:  # a child run has it already; its end will be told with the stretch's
            return
        elsewhere = node.handler is not None and node.pool != self.engine.pool
        if isinstance(decision, Expand):
            activity = self._items_elsewhere(node, decision) if elsewhere else self._items_here(node, decision)
        else:
            activity = self._stretch_elsewhere(node) if elsewhere else self._node_here(node, decision)
        self._activities.add(asyncio.create_task(_unless_stopped(activity)))

    # --- here ---

    async def _node_here(self, node: Node, decision: Execute) -> list[Event]:
        self.schedule.apply(NodeStarted(node.id))
        work = Work(node, self.place.of(node.id), decision.params)
        known = self.hands.remembered(work)
        if known is None:
            self._note(node.id, "running", tries=1)
        tries = 0
        if self.visible and node.handler is not None:
            outcome, tries = await TaskRuns(self.hands, node).run(work, known)
        else:
            outcome = known or await self.hands.perform(work)
        problem = None if outcome.state is State.CANCELLED else outcome.error
        self._report(node.id, outcome.state.value, problem, tries or None)
        return [_node_event(node.id, outcome)]

    async def _items_here(self, node: Node, decision: Expand) -> list[Event]:
        """Every child of a fan-out, at most `max_concurrency` at once; each tells the schedule as it ends."""
        share = Share(node, self.place.of(node.id), decision.items, decision.max_concurrency)
        async with self._counted(node, decision) as counts:

            def tell(index: int, outcome: Outcome) -> None:
                counts.add(outcome)
                self.apply(_item_event(node.id, index, outcome))

            await do_items(self.hands, share, tell, visible=self.visible)
        return []

    def _counted(self, node: Node, decision: Expand) -> AbstractAsyncContextManager[Counts]:
        self.schedule.apply(NodeStarted(node.id))
        line = self.engine.line if not self.place.path else None
        states = self.schedule.states
        return Counts(line, node.id, decision.count, lambda: states[node.id].is_terminal).reported()

    def _skipped(self, node: Node) -> None:
        self._report(node.id, "skipped", None)
        shown_there = node.id in self._elsewhere  # by the child run that has it
        if self.visible and not shown_there and (node.handler or node.workflow):

            async def show() -> list[Event]:
                await show_skipped(node)
                return []

            self._activities.add(asyncio.create_task(show()))

    # --- elsewhere ---

    async def _stretch_elsewhere(self, node: Node) -> list[Event]:
        """Have the whole stretch that begins here executed by one child run on its pool."""
        states = self.schedule.states  # of a part, where only that was asked for: the rest of the plan is settled
        settled = [name for name in self.schedule.plan.nodes if name not in states or states[name].is_terminal]
        nodes = stretch(self.schedule.plan, node.id, settled)
        self._elsewhere.update(nodes)
        if self.engine.children is None or node.pool is None:
            error = RunError(
                "wrong-pool", f"Node {node.id} belongs on pool {node.pool}; this is {self.engine.pool}.", node.id
            )
            return [NodeFailed(node.id, error)]
        known, wait, begun = self.schedule.outcomes, _wait_seconds(node), self._dispatched(node)
        try:
            outcomes = await self.engine.children.stretch(node.pool, self.place, nodes, known, wait, self.stop, begun)
        except NoWorker as nobody:
            self._elsewhere.difference_update(nodes)
            return [NodeFailed(node.id, RunError("dispatch-timeout", str(nobody), node.id))]
        return [_node_event(name, outcomes[name]) for name in nodes if name in outcomes]

    async def _items_elsewhere(self, node: Node, decision: Expand) -> list[Event]:
        """A large fan-out by several child runs that this run starts itself; a small one as part of a stretch."""
        parts = shards(decision, self.engine.shards_cap)
        if len(parts) <= 1 or self.engine.children is None or node.pool is None:
            return await self._stretch_elsewhere(node)
        begun = self._dispatched(node)
        shares = [(decision.items[part.start : part.stop], at_once) for part, at_once in parts]
        async with self._counted(node, decision) as counts:

            def counted(done: int, failed: int) -> bool:
                counts.set(done, failed)
                return node.on_failure == "continue" or _fan_out(node).tolerates(failed, decision.count)

            try:
                ended = await self.engine.children.items(
                    node.pool, self.place, node.id, shares, _wait_seconds(node), self.stop, begun, counted
                )
            except NoWorker as nobody:
                return [NodeFailed(node.id, RunError("dispatch-timeout", str(nobody), node.id))]
            states = [outcome.state for outcome in ended.values()]
            counts.set(states.count(State.COMPLETED), states.count(State.FAILED))
        events = [_item_event(node.id, index, outcome) for index, outcome in ended.items()]
        if len(ended) < len(decision.items) and not self.stop.is_set():  # given up; the failed may be unknown
            error = RunError("too-many-failures", f"Too many items of {node.id} failed.", node.id)
            events.append(NodeFailed(node.id, error))
        return events

    # --- telling ---

    def _dispatched(self, node: Node) -> Callable[[], None]:
        """Tell that the node waits for its pool; the answer is called once it does so no more.

        What a sub-workflow waits for is told of the run's own node, as a run that waits in vain must show it. That
        it has begun the child run tells by itself, unless it works for a sub-workflow.
        """
        waits = [self.place.top] if self.place.path else []
        event = NodeEvent(node_id=self.place.top or node.id, state="dispatched", pool=node.pool)
        self.engine.line.note(event)

        def begun() -> None:
            while waits:
                self.engine.line.note(NodeEvent(node_id=waits.pop(), state="running"))

        return begun

    def _note(self, node_id: str, state: str, **more: Any) -> None:
        """Tell the domain, of the run's own nodes only: those of sub-workflows are theirs."""
        if not self.place.path:
            event = {"node_id": node_id, "state": state} | {key: value for key, value in more.items() if value}
            self.engine.line.note(NodeEvent.model_validate(event))

    def _report(self, node_id: str, state: str, error: RunError | None, tries: int | None = None) -> None:
        self._note(node_id, state, problem=run_problem(error) if error else None, tries=tries)


@dataclass(frozen=True)
class SubWorkflows:
    """Runs the workflows that nodes name, in this process: a run never waits for a place on its own pool."""

    outer: Runner

    async def run(self, work: Work, inputs: Mapping[str, Any]) -> dict[str, Any]:
        engine, name = self.outer.engine, work.node.workflow or ""
        plan = engine.plans[name]
        try:
            resolved = plan.resolve_inputs(inputs)
        except InputFault as fault:
            raise InvalidInput(f"Workflow {name} does not take these inputs: {fault}") from fault
        inner = Runner(
            engine,
            Schedule(plan, resolved, engine.schedule_facts),
            self.outer.stop.inner(),
            Place(f"{work.name}.", name, resolved, self.outer.place.top or work.node.id),
            visible=self.outer.visible and work.item is None,
        )
        bound = work.node.timeout_seconds or TIMEOUT_SECONDS
        try:
            async with asyncio.timeout(bound):
                verdict = await (_as_flow_run(inner, work) if inner.visible else inner.run())
        except TimeoutError:
            raise Nested(f"Workflow {name} took longer than its {bound:.0f} s.", "timeout") from None
        if isinstance(verdict, Failed):
            raise Nested(verdict.error.message, verdict.error.code, is_invalid=verdict.error.partner_may_read)
        outputs: dict[str, Any] = plain(dict(verdict.outputs))
        return outputs


async def _as_flow_run(inner: Runner, work: Work) -> Verdict:
    """The sub-workflow as a flow run of its own inside ours, so that operators see its nodes together."""
    ended: list[Verdict] = []

    async def body() -> PrefectState[Any]:
        verdict = await inner.run()
        ended.append(verdict)
        if isinstance(verdict, Finished):
            return PrefectState(type=StateType.COMPLETED)
        if inner.stop.reason == "draining":
            return PrefectState(type=StateType.CANCELLED, name=HANDED_OVER, message=verdict.error.message)
        kind = StateType.FAILED if inner.stop.reason in {None, "over"} else StateType.CANCELLED
        return PrefectState(type=kind, message=verdict.error.message)

    plan = inner.schedule.plan
    await run_inside(body, plan.workflow_id, str(plan.version), work.node.id)
    if not ended:
        raise Broken(f"Prefect did not let workflow {plan.workflow_id} run.")
    return ended[0]


async def _unless_stopped(activity: Coroutine[Any, Any, list[Event]]) -> list[Event]:
    """What the activity tells; nothing where it left because it was told to."""
    try:
        return await activity
    except Stopped:
        return []


def _fan_out(node: Node) -> FanOut:
    assert node.fan_out is not None  # noqa: S101 - only fan-outs expand
    return node.fan_out


def _wait_seconds(node: Node) -> float | None:
    """How long a child run may wait for a worker: as the workflow says, else as long as workers serve its pool.

    Waiting anew, once for each retry, would be no other wait.
    """
    once = node.dispatch_timeout_seconds
    return None if once is None else once * (1 + len(node.retry.delays()))


def run_problem(error: RunError) -> RunProblem:
    """A scheduler's error as the domain takes it."""
    message = kept(error.message[:4000])  # a template may quote what a partner wrote
    return RunProblem(code=error.code, message=message, node_id=error.node_id, partner_may_read=error.partner_may_read)


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
