"""Carries out the scheduler's decisions, here or by child runs, and tells it how they ended."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, assert_never

from domain.contracts.runs import NodeEvent
from flows.compiler import (
    Cancelled,
    Decision,
    Event,
    ExecuteNode,
    Expand,
    Failed,
    FanOut,
    Finished,
    InputFault,
    ItemCompleted,
    Node,
    NodeCompleted,
    NodeFailed,
    NodeOutcome,
    NodeStarted,
    RunError,
    Schedule,
    Settled,
    Skipped,
    State,
    StopRunning,
)
from flows.compiler.partition import stretch
from flows.handlers.errors import InvalidInput, Nested, Stopped, Transient
from flows.memory.large_values import Stored, made_plain
from flows.prefect_engine.node_tasks import TaskRuns, show_skipped
from flows.runs.child_flow_runs.errors import NoWorker
from flows.runs.child_flow_runs.wants import ChildWants
from flows.runs.events import item_event, node_event, run_problem, shown_parameters, wait_seconds, with_last_counts
from flows.runs.fan_out import FanOutCounts, Share
from flows.runs.fan_out_summary import learn_failures, summarised
from flows.runs.inner_flow_run import run_as_flow_run
from flows.runs.node_executor import TIMEOUT_SECONDS, NodeExecutor, Work
from flows.runs.pool_wait import PoolWait
from flows.runs.run_context import PlanPath, RunContext
from flows.runs.sharing import HomeFanOut, order_of_items
from flows.runs.stopping import Stop
from flows.storage.threads import in_storage_thread
from flows.tries.time_budget import TRY_LEAVE_SECONDS, grace_seconds

Verdict = Finished | Failed


@dataclass
class Runner:
    """Runs one plan, or a part of one. The run's own has task runs in Prefect and tells the domain of its nodes.

    A sub-workflow's runner does so where it is a flow run of its own; inside an item of a fan-out it works unseen.
    """

    run_context: RunContext
    schedule: Schedule
    stop: Stop
    place: PlanPath = field(default_factory=PlanPath)
    visible: bool = True
    _activities: set["asyncio.Task[list[Event]]"] = field(default_factory=set)
    _elsewhere: set[str] = field(default_factory=set)
    _fan_outs: dict[str, FanOutCounts] = field(default_factory=dict)
    _verdict: Verdict | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.executor = NodeExecutor(self.run_context, self.stop, SubWorkflows(self))
        self._looks_into_storage = any(isinstance(known.output, Stored) for known in self.schedule.outcomes.values())

    async def run_plan(self) -> Verdict:
        """Carry out decisions until the schedule says that the run is over."""
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        self.stop.on_set(lambda: loop.call_soon_threadsafe(stopped.set))
        waiting = asyncio.create_task(stopped.wait())
        try:
            await self._decide_and_carry_out(self.schedule.begin)
            while self._verdict is None:
                await self._next_events(waiting)
        finally:
            waiting.cancel()
            await self._settle_activities()
        return with_last_counts(self._verdict, self.schedule.outcomes)

    async def _next_events(self, stopped: "asyncio.Task[Any]") -> None:
        await asyncio.wait({*self._activities, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for activity in [one for one in self._activities if one.done()]:
            self._activities.discard(activity)
            for event in activity.result():
                await self.apply(event)
        if self.stop.is_set() and self._verdict is None:
            await self.apply(Cancelled())

    async def apply(self, event: Event) -> None:
        """Tell the schedule, and do what it decides."""
        self._looks_into_storage |= isinstance(event, NodeCompleted | ItemCompleted) and isinstance(
            event.output, Stored
        )
        await self._decide_and_carry_out(partial(self.schedule.apply, event))

    async def _decide_and_carry_out(self, decide: Callable[[], Iterable[Decision]]) -> None:
        """Have the schedule decide, and carry it out. One at a time: templates may look into what lies in storage."""
        async with self._turn:
            decisions = await in_storage_thread(decide) if self._looks_into_storage else decide()
            self._carry_out(decisions)

    async def _settle_activities(self) -> None:
        """Let what still runs notice the stop and leave: no thread may outlive its run. What only waits need not."""
        self.stop.set("over")
        self.executor.cut_waits()
        if self._activities:
            await asyncio.wait(self._activities, timeout=grace_seconds(self.stop.reason) + TRY_LEAVE_SECONDS)
        for activity in self._activities:
            activity.cancel()
        await asyncio.gather(*self._activities, return_exceptions=True)

    def _carry_out(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            match decision:
                case ExecuteNode() | Expand():
                    self._begin_node(decision)
                case Settled() if decision.node_id in self._fan_outs and decision.state is State.FAILED:
                    pass  # told once its last item has ended
                case Settled():
                    self._report(decision.node_id, decision.state.value, decision.error)
                case Skipped():
                    self._report_skipped(self.schedule.plan.nodes[decision.node_id])
                case StopRunning():
                    self.stop.set("over")
                case Finished():
                    self._verdict = decision
                case Failed():
                    self._verdict = decision
                    self.stop.set("over")  # else a fan-out that failed would go on with its items for nothing
                case _:
                    assert_never(decision)

    def _begin_node(self, decision: ExecuteNode | Expand) -> None:
        node = self.schedule.plan.nodes[decision.node_id]
        if node.id in self._elsewhere:  # a child run has it already; its end will be told with the stretch's
            return
        elsewhere = node.handler is not None and node.pool != self.run_context.pool
        if isinstance(decision, Expand):
            activity = self._order_items(node, decision) if elsewhere else self._run_items(node, decision)
        else:
            activity = self._order_stretch(node, decision) if elsewhere else self._run_node(node, decision)
        self._activities.add(asyncio.create_task(_nothing_if_stopped(activity)))

    # --- here ---

    async def _run_node(self, node: Node, decision: ExecuteNode) -> list[Event]:
        await self.apply(NodeStarted(node.id))
        work = Work(node, self.place.of(node.id), decision.params)
        known = await self.executor.remembered_node(work)
        if known is None:
            self._note(node.id, "running", tries=1, parameters=shown_parameters(work.params))
        if self.visible and node.handler is not None:
            outcome, tries = await TaskRuns(self.executor, node).run_as_task(work, known)
        else:
            outcome, tries = known or (await self.executor.run_with_retries(work))[0], 0
        problem = None if outcome.state is State.CANCELLED else outcome.error
        self._report(node.id, outcome.state.value, problem, tries or None)
        return [node_event(node.id, outcome)]

    async def _run_items(self, node: Node, decision: Expand) -> list[Event]:
        """Run every item of a fan-out, at most `max_concurrency` at once; the schedule hears of each as it ends."""
        share = Share.of_all(node, self.place.of(node.id), decision)
        await self.apply(NodeStarted(node.id))
        counts = self._fan_outs[node.id] = self._counts(node, decision)
        try:
            async with (
                counts.reported(),
                summarised(self.run_context, share.path, counts, visible=self.visible) as failed,
            ):

                async def tell(index: int, outcome: NodeOutcome) -> None:
                    counts.add(outcome)
                    await self.apply(item_event(node.id, index, outcome))

                fan_out = HomeFanOut(self.executor, self.place, share, decision, counts, failed, visible=self.visible)
                return await fan_out.run(tell, lambda index, ended: self.apply(item_event(node.id, index, ended)))
        finally:
            del self._fan_outs[node.id]
            self._report_failed_fan_out(node.id, counts)

    def _report_failed_fan_out(self, node_id: str, counts: FanOutCounts) -> None:
        """Tell that the fan-out failed once none of its items is under way: only then is it known how many failed."""
        outcome = self.schedule.outcomes.get(node_id)
        if outcome is not None and outcome.state is State.FAILED and outcome.error is not None:
            self._note(node_id, "failed", problem=run_problem(outcome.error), **counts.told)

    def _counts(self, node: Node, decision: Expand) -> FanOutCounts:
        line = self.run_context.line if not self.place.path else None
        states, retried, path = self.schedule.states, self.run_context.retried, self.place.of(node.id)
        has_ended, again = lambda: states[node.id].is_terminal, lambda: retried[path]
        return FanOutCounts(line, node.id, decision.count, has_ended, retried=again)

    def _report_skipped(self, node: Node) -> None:
        self._report(node.id, "skipped", None)
        shown_there = node.id in self._elsewhere  # by the child run that has it
        if self.visible and not shown_there and (node.handler or node.workflow):

            async def show() -> list[Event]:
                await show_skipped(node)
                return []

            self._activities.add(asyncio.create_task(show()))

    # --- elsewhere ---

    async def _order_stretch(self, node: Node, decision: ExecuteNode | Expand) -> list[Event]:
        """Have the whole stretch that begins here executed by one child run on its pool."""
        states = self.schedule.states  # of a part, where only that was asked for: the rest of the plan is settled
        settled = [name for name in self.schedule.plan.nodes if name not in states or states[name].is_terminal]
        nodes = stretch(self.schedule.plan, node.id, settled)
        self._elsewhere.update(nodes)
        if self.run_context.children is None or node.pool is None:
            error = RunError(
                "wrong-pool", f"Node {node.id} belongs on pool {node.pool}; this is {self.run_context.pool}.", node.id
            )
            return [NodeFailed(node.id, error)]
        async with self._turn:
            known = dict(self.schedule.outcomes)
        wants = ChildWants.of(self.schedule.plan, nodes, decision.needs)
        seconds, wait = wait_seconds(node), PoolWait(partial(self._tell_waits, wants, nodes), self._tell_top_begun)
        try:
            outcomes = await self.run_context.children.run_stretch(
                wants, self.place, nodes, known, seconds, self.stop, wait
            )
        except NoWorker as nobody:
            self._elsewhere.difference_update(nodes)
            return [NodeFailed(node.id, RunError("dispatch-timeout", str(nobody), node.id))]
        return [node_event(name, outcomes[name]) for name in nodes if name in outcomes]

    async def _order_items(self, node: Node, decision: Expand) -> list[Event]:
        """Have a large fan-out executed by child runs of this run that share it; a small one as part of a stretch."""
        order = await order_of_items(self.run_context.children, node, decision)
        if order is None or self.run_context.children is None or node.pool is None:
            return await self._order_stretch(node, decision)
        await self.apply(NodeStarted(node.id))
        counts = self._counts(node, decision)

        def begun() -> None:
            counts.report()
            self._tell_top_begun()

        wants = ChildWants.of(self.schedule.plan, [node.id], decision.needs)
        wait = PoolWait(partial(self._tell_waits, wants, [node.id]), begun)
        counts.is_at_work = lambda: wait.is_over
        path = self.place.of(node.id)
        async with counts.reported(), summarised(self.run_context, path, counts, visible=self.visible) as failures:

            def counted(done: int, failed: int) -> bool:
                counts.set(done, failed)
                return node.on_failure == "continue" or _fan_out(node).tolerates(failed, decision.count)

            try:
                ended = await self.run_context.children.run_items(
                    wants, self.place, order, wait_seconds(node), self.stop, wait, counted
                )
            except NoWorker as nobody:
                return [NodeFailed(node.id, RunError("dispatch-timeout", str(nobody), node.id))]
            states = [outcome.state for outcome in ended.values()]
            counts.set(states.count(State.COMPLETED), states.count(State.FAILED))
            if counts.failed:
                await learn_failures(self.run_context, path, failures)
        events = [item_event(node.id, index, outcome) for index, outcome in ended.items()]
        if len(ended) < len(decision.items) and not self.stop.is_set():  # given up; the failed may be unknown
            error = RunError("too-many-failures", f"Too many items of {node.id} failed.", node.id)
            events.append(NodeFailed(node.id, error))
        return events

    # --- telling ---

    async def _tell_waits(self, wants: ChildWants, nodes: Sequence[str], again: bool) -> None:
        """Tell that the first of these nodes that has not ended waits; for a sub-workflow, that the run's own does."""
        waits = self.place.top or nodes[0]
        if again and not self.place.path:  # a child run that was handed over may have done some of them
            with suppress(Transient):
                ended = await in_storage_thread(self.run_context.ledger.completed_nodes)
                waits = next((name for name in nodes if name not in ended), waits)
        self.run_context.line.note(wants.waited_for_by(waits))

    def _tell_top_begun(self) -> None:
        """A child run tells by itself of the nodes it has begun, unless it works for a sub-workflow."""
        if self.place.path:
            self.run_context.line.note(NodeEvent(node_id=self.place.top, state="running"))

    def _note(self, node_id: str, state: str, **more: Any) -> None:
        """Tell the domain, of the run's own nodes only: those of sub-workflows are theirs."""
        if not self.place.path:
            event = {"node_id": node_id, "state": state} | {key: value for key, value in more.items() if value}
            self.run_context.line.note(NodeEvent.model_validate(event))

    def _report(self, node_id: str, state: str, error: RunError | None, tries: int | None = None) -> None:
        self._note(node_id, state, problem=run_problem(error) if error else None, tries=tries)


@dataclass(frozen=True)
class SubWorkflows:
    """Runs the workflows that nodes name, in this process: a run never waits for a place on its own pool."""

    outer: Runner

    async def run_workflow(self, work: Work, inputs: Mapping[str, Any]) -> dict[str, Any]:
        run_context, name = self.outer.run_context, work.node.workflow or ""
        plan = run_context.plans[name]
        try:
            resolved = plan.resolve_inputs(inputs)
        except InputFault as fault:
            raise InvalidInput(f"Workflow {name} does not take these inputs: {fault}") from fault
        inner = Runner(
            run_context,
            Schedule(plan, resolved, run_context.schedule_facts),
            self.outer.stop.inner(),
            PlanPath(f"{work.name}.", name, resolved, self.outer.place.top or work.node.id),
            visible=self.outer.visible and work.item is None,
        )
        bound = work.node.timeout_seconds or TIMEOUT_SECONDS
        try:
            async with asyncio.timeout(bound):
                verdict = await (run_as_flow_run(inner, work.node.id) if inner.visible else inner.run_plan())
        except TimeoutError:
            raise Nested(f"Workflow {name} took longer than its {bound:.0f} s.", "timeout") from None
        if isinstance(verdict, Failed):
            raise Nested(verdict.error.message, verdict.error.code, is_invalid=verdict.error.partner_may_read)
        outputs: dict[str, Any] = await made_plain(dict(verdict.outputs))
        return outputs


async def _nothing_if_stopped(activity: Coroutine[Any, Any, list[Event]]) -> list[Event]:
    """Await the activity's events; there are none where it left because it was told to stop."""
    try:
        return await activity
    except Stopped:
        return []


def _fan_out(node: Node) -> FanOut:
    assert node.fan_out is not None  # noqa: S101 - only fan-outs expand
    return node.fan_out
