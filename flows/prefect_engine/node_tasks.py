"""The face of work in Prefect: a task run for a node, for each of its items, or for a group of them."""

import random
from collections.abc import Callable, Coroutine, Sequence
from copy import copy
from functools import cache
from typing import Any

from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State as PrefectState
from prefect.client.schemas.objects import StateType, TaskRun
from prefect.runtime import task_run

from flows.compiler import Node, NodeOutcome, State
from flows.handlers.errors import Broken
from flows.prefect_engine.engines import engine
from flows.runs.group_tally import TaskRunEnd, shown_key
from flows.runs.node_executor import NodeExecutor, Work

PREFECT_RETRIES = 50  # Prefect takes no longer list of delays


class TaskRuns:
    """The task runs of one node, or of all its items."""

    def __init__(self, executor: NodeExecutor, node: Node, *, of_items: bool = False) -> None:
        self.executor, self.node = executor, node
        self._works: dict[int, tuple[Work, NodeOutcome | None]] = {}
        self._ended: dict[int, NodeOutcome] = {}
        self._tries: dict[int, int] = {}
        name = node.id + "__{index}" if of_items else node.id
        may_retry = executor.may_retry if _prefect_retries(node) else None
        self._task = _prefect_task(node, self._body, name, may_retry)

    async def run_as_task(self, work: Work, known: NodeOutcome | None = None) -> tuple[NodeOutcome, int]:
        """Do the work in a task run, or show that it was done before; return how it ended, after how many tries."""
        index = work.item.index if work.item else 0
        self._works[index] = work, known
        with self.executor.at_work():
            error = await engine().run_task(_with_own_waits(self._task, self.node), index=index)
            made = self._tries.pop(index, 0)
            outcome = known or self._ended.pop(index, None)
            if isinstance(error, Broken):
                raise error
            if outcome is None:
                assert error is not None  # noqa: S101 - a body leaves an outcome or raises
                outcome = await self.executor.outcome_of_failure(work, made - 1, error)
        del self._works[index]
        return outcome, made

    async def run_mapped(self, indexes: Sequence[int], do: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        """Have the engine map the task over these indexes; `do` runs one of them."""
        await engine().run_mapped(self._task, indexes, do)

    async def _body(self, index: int) -> "PrefectState[Any]":
        work, known = self._works[index]
        if known is not None:
            return _prefect_state(StateType.COMPLETED, "Cached", _said(work))
        if _prefect_retries(self.node):
            number = (task_run.run_count or 1) - 1
            self._tries[index] = number + 1
            self._ended[index] = NodeOutcome(State.COMPLETED, await self.executor.try_through_outages(work, number))
        else:
            outcome, self._tries[index] = await self.executor.run_with_retries(work)
            self._ended[index] = outcome
            if outcome.error is not None:
                return _prefect_state(StateType.FAILED, "Failed", outcome.error.message)
        return _prefect_state(StateType.COMPLETED, "Completed", _said(work, self._tries[index]))


async def run_group(node: Node, name: str, perform: Callable[[], Coroutine[Any, Any, TaskRunEnd]]) -> None:
    """Do several items in one task run, each with its own tries; it ends as what was performed says."""

    async def body() -> "PrefectState[Any]":
        end = await perform()
        return _prefect_state(StateType(end.kind), end.name, end.message)

    if error := await engine().run_task(_prefect_task(node, body, name), of_many=True):
        raise error


async def show_skipped(node: Node) -> None:
    """Show by a task run that the node was skipped: as one that is over and did nothing, not in green."""

    async def body() -> "PrefectState[Any]":
        return _prefect_state(StateType.CANCELLED, "Skipped", "Not chosen by the workflow.")

    await engine().run_task(_prefect_task(node, body, node.id))


def _said(work: Work, tries: int = 1) -> str:
    """What stands beside a task run: an item's key, where it is not its number, and its tries, where it had several."""
    key = shown_key(work.item.index, work.item.key) if work.item else ""
    return ", ".join(part for part in (key.strip(), f"{tries} tries" if tries > 1 else "") if part)


def _prefect_state(kind: StateType, name: str, message: str) -> "PrefectState[Any]":
    return PrefectState(type=kind, name=name, message=message or None)


def _prefect_retries(node: Node) -> bool:
    """Whether Prefect does the retrying."""
    return len(node.retry.delays()) <= PREFECT_RETRIES


def _prefect_task(
    node: Node,
    body: Callable[..., Coroutine[Any, Any, Any]],
    name: str,
    may_retry: Callable[[object], bool] | None = None,
) -> Task[..., Any]:
    """A task like the prototype. Making one anew reads its function's source file, a third of what a node costs."""
    retries = len(node.retry.delays()) if may_retry else 0
    task = copy(_prototype())
    vars(task).update(
        fn=body,
        name=node.id,
        task_key=node.id,
        task_run_name=name,
        tags=set(node.tags),
        retries=retries,
        retry_jitter_factor=None,  # Prefect's makes waits longer than the longest; ours are in the delays
        retry_condition_fn=_condition(may_retry) if may_retry and retries else None,
    )
    return task


def _with_own_waits(task: Task[..., Any], node: Node) -> Task[..., Any]:
    """The task with waits of its own: items that fail together must not come back together."""
    if not task.retries:
        return task
    one = copy(task)
    waits = [node.retry.wait(number, random.random()) for number in range(task.retries)]  # noqa: S311 - no secret
    vars(one).update(retry_delay_seconds=waits)
    return one


@cache
def _prototype() -> Task[..., Any]:
    async def node() -> None:
        """Stand in for what a node does."""

    return Task(fn=node, cache_policy=NO_CACHE, persist_result=False, log_prints=False)


def _condition(may_retry: Callable[[object], bool]) -> Callable[..., bool]:
    """As Prefect asks: it takes plain functions only."""

    def condition(_task: Task[..., Any], _run: TaskRun, state: "PrefectState[Any]") -> bool:
        error = state.data
        return may_retry(getattr(error, "result", error))

    return condition
