"""One piece of work, a node or an item of a fan-out: its tries, its memory, its face in Prefect.

A node, and an item of a small fan-out, is a Prefect task run, which retries it. Items of a large fan-out share task
runs, and what runs inside an item has none: those are retried here, in the same way.
"""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Protocol

from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State as PrefectState
from prefect.client.schemas.objects import StateType, TaskRun
from prefect.runtime import task_run

from domain.contracts.artifacts import Artifact
from domain.contracts.runs import NodeEvent
from flows import tries
from flows.compiler import Item, Node, Outcome, RunError, State
from flows.engine import Engine
from flows.errors import Broken, HandlerError, Stopped
from flows.ledger import Entry, digest, error_json
from flows.stopping import Reason, Stop
from flows.tries import Progress, Try
from flows.values import plain

TIMEOUT_SECONDS = 3600.0
PREFECT_RETRIES = 50  # Prefect takes no longer list of delays
JITTER = 0.5
MESSAGE_LENGTH = 500
DRAIN_SECONDS = 26.0  # of the 30 that a worker has to drain
CANCEL_SECONDS = 7.0  # of the 10 in which a cancelled run has ended


@dataclass(frozen=True)
class Work:
    """What is to be done. `path` is the node's name in the run's memory."""

    node: Node
    path: str
    params: Mapping[str, Any]
    item: Item | None = None

    @property
    def name(self) -> str:
        return self.path if self.item is None else f"{self.path}__{self.item.index}"

    @property
    def digest(self) -> str:
        return digest(self.node.handler or self.node.workflow, self.params)


class Workflows(Protocol):
    """Runs sub-workflows."""

    async def run(self, work: Work, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of the sub-workflow; raises if it fails."""


@dataclass
class Hands:
    """Does pieces of work for one runner, each until it has succeeded or is not worth another try."""

    engine: Engine
    stop: Stop
    workflows: Workflows | None = None
    _tasks: set["asyncio.Task[Any]"] = field(default_factory=set)
    _busy: set["asyncio.Task[Any]"] = field(default_factory=set)

    @contextmanager
    def at_work(self, tasks: "set[asyncio.Task[Any]] | None" = None) -> Iterator[None]:
        """Count the current task among those that do work while the block runs."""
        tasks, task = self._tasks if tasks is None else tasks, asyncio.current_task()
        assert task is not None  # noqa: S101 - work is done in tasks
        entered = task not in tasks
        tasks.add(task)
        try:
            yield
        finally:
            if entered:
                tasks.discard(task)

    def cut_waits(self) -> None:
        """Cut short what only waits for its next try. A handler that runs leaves by itself."""
        for task in self._tasks - self._busy:
            task.cancel()

    async def once(self, work: Work, number: int) -> dict[str, Any]:
        """One try. What succeeded is remembered before anybody hears of it."""
        if self.stop.is_set():
            raise Stopped("The run was asked to stop.")
        started = time.time()
        with self.at_work(self._busy):
            if work.node.workflow is not None and self.workflows is not None:
                output = await self.workflows.run(work, plain(work.params))
                await self._in_thread(partial(self._remember, work, number, started, output))
            else:
                output = await self._in_thread(partial(self._handle, work, number, started, self._progress(work)))
        self.engine.artifacts += [Artifact.model_validate(each) for each in output.get("artifacts") or []]
        return output

    async def perform(self, work: Work) -> Outcome:
        """All its tries, without a task run of its own."""
        with self.at_work():
            return await self._perform(work)

    async def _perform(self, work: Work) -> Outcome:
        delays = work.node.retry.delays()
        number = 0
        while True:
            try:
                return Outcome(State.COMPLETED, await self.once(work, number))
            except Broken:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a handler raises is its failure, not ours
                if number >= len(delays) or not worth_another_try(error) or self.stop.is_set():
                    return await self.failed(work, number, error)
            delay = delays[number] * (random.uniform(1 - JITTER, 1) if work.node.retry.jitter else 1)  # noqa: S311
            await asyncio.sleep(delay)
            number += 1

    async def failed(self, work: Work, number: int, error: BaseException) -> Outcome:
        """The outcome of work that failed for good, or was stopped."""
        told = run_error(error, work.node.id)
        if isinstance(error, Stopped):  # it is to be done again, so nobody remembers how it ended
            return Outcome(State.CANCELLED, None, told)
        await self._in_thread(partial(self._remember, work, number, None, None, told))
        return Outcome(State.FAILED, None, told)

    def remembered(self, work: Work) -> Outcome | None:
        """How a node ended if an earlier attempt did it."""
        return self._taken(self.engine.ledger.node(work.path, work.digest))

    def remembered_item(self, entries: Mapping[str, Entry], work: Work) -> Outcome | None:
        """How an item ended if an earlier attempt did it."""
        if not entries or work.item is None:
            return None
        return self._taken(self.engine.ledger.item(entries, work.item.key, work.digest))

    def _taken(self, outcome: Outcome | None) -> Outcome | None:
        if outcome is not None:
            found = outcome.output.get("artifacts") or [] if isinstance(outcome.output, Mapping) else []
            self.engine.artifacts += [Artifact.model_validate(each) for each in found]
        return outcome

    # --- in threads ---

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        """In a thread that logs as this run does."""
        return await asyncio.get_running_loop().run_in_executor(self.engine.threads, copy_context().run, call)

    def _handle(self, work: Work, number: int, started: float, progress: Progress) -> dict[str, Any]:
        handler = work.node.handler
        assert handler is not None  # noqa: S101 - what runs no workflow has a handler
        attempt = Try(
            node_id=work.name,
            handler=handler,
            params=plain(work.params),
            facts=self.engine.facts,
            timeout_seconds=work.node.timeout_seconds or TIMEOUT_SECONDS,
            item_key=work.item.key if work.item else None,
            number=number,
            memory=self.engine.ledger.memory,
        )
        metrics: dict[str, float] = {}

        def metric(name: str, value: float) -> None:
            metrics[name] = metrics.get(name, 0.0) + value

        output = tries.run(
            attempt, self.engine.zones, self.stop.event, progress, metric, lambda: grace_seconds(self.stop.reason)
        )
        self._remember(work, number, started, output, metrics=metrics)
        return output

    def _remember(
        self,
        work: Work,
        number: int,
        started: float | None,
        output: dict[str, Any] | None,
        error: RunError | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        ledger, now = self.engine.ledger, time.time()
        ledger.record(
            Entry(
                node=work.path,
                digest=work.digest,
                state=(State.FAILED if error else State.COMPLETED).value,
                tries=number + 1,
                worker=self.engine.worker,
                started_at=started or now,
                ended_at=now,
                index=work.item.index if work.item else None,
                key=work.item.key if work.item else None,
                output=None if output is None else ledger.values.told(output),
                error=error_json(error) if error else None,
                metrics=metrics or None,
            )
        )

    def _progress(self, work: Work) -> Progress:
        """Tells how far a node of the run is. Items and nodes of sub-workflows are counted instead."""
        if work.item is not None or "." in work.path:
            return lambda *_: None
        loop, line = asyncio.get_running_loop(), self.engine.line

        def progress(fraction: float, message: str) -> None:
            """Called from the handler's thread; heartbeats are sent by the loop's."""
            event = NodeEvent(
                node_id=work.node.id,
                state="running",
                fraction=min(max(fraction, 0), 1),
                message=message[:MESSAGE_LENGTH],
            )
            loop.call_soon_threadsafe(line.note, event)

        return progress


class TaskRuns:
    """The Prefect task runs of one node: for itself, for each of its items, or for groups of them."""

    def __init__(self, hands: Hands, node: Node, *, of_items: bool = False) -> None:
        self.hands, self.node = hands, node
        self._works: dict[int, tuple[Work, Outcome | None]] = {}
        self._ended: dict[int, Outcome] = {}
        self._tries: dict[int, int] = {}
        name = node.id + "__{index}" if of_items else node.id
        self._task = _prefect_task(node, self._body, name, retried=_prefect_retries(node))

    async def run(self, work: Work, known: Outcome | None = None) -> tuple[Outcome, int]:
        """One task run for this work, or to show that it was done before; how it ended, after how many tries."""
        index = work.item.index if work.item else 0
        self._works[index] = work, known
        with self.hands.at_work():
            state = await self._task(index, return_state=True)
            made = self._tries.pop(index, 0)
            outcome = known or self._ended.pop(index, None)
            if outcome is None:
                error = _exception(await state.aresult(raise_on_failure=False))
                if isinstance(error, Broken):
                    raise error
                outcome = await self.hands.failed(work, made - 1, error)
        del self._works[index]
        return outcome, made

    async def _body(self, index: int) -> "PrefectState[Any]":
        work, known = self._works[index]
        if known is not None:
            return _prefect_state(StateType.COMPLETED, "Cached", _said(work))
        if _prefect_retries(self.node):
            number = (task_run.run_count or 1) - 1
            self._tries[index] = number + 1
            self._ended[index] = Outcome(State.COMPLETED, await self.hands.once(work, number))
        else:
            self._ended[index] = outcome = await self.hands.perform(work)
            if outcome.error is not None:
                return _prefect_state(StateType.FAILED, "Failed", outcome.error.message)
        return _prefect_state(StateType.COMPLETED, "Completed", _said(work))


async def run_group(node: Node, name: str, perform: Callable[[], Coroutine[Any, Any, Sequence[bool]]]) -> None:
    """One task run for several items, each with its own tries. It ends well; its message counts the failed."""

    async def body() -> PrefectState[Any]:
        done = list(await perform())
        return _prefect_state(StateType.COMPLETED, "Completed", f"{len(done)} items, {done.count(False)} failed")

    await _prefect_task(node, body, name)(return_state=True)


async def show_skipped(node: Node) -> None:
    """A task run that says that the node was skipped."""

    async def body() -> PrefectState[Any]:
        return _prefect_state(StateType.COMPLETED, "Skipped", "Not chosen by the workflow.")

    await _prefect_task(node, body, node.id)(return_state=True)


def _said(work: Work) -> str:
    """What stands beside a task run: an item's key, where it is not its number."""
    if work.item is None or work.item.key == str(work.item.index):
        return ""
    return f"key {work.item.key[:100]!r}"


def _prefect_state(kind: StateType, name: str, message: str) -> "PrefectState[Any]":
    return PrefectState(type=kind, name=name, message=message or None)


def _prefect_retries(node: Node) -> bool:
    """Whether Prefect does the retrying."""
    return len(node.retry.delays()) <= PREFECT_RETRIES


def _prefect_task(
    node: Node, body: Callable[..., Coroutine[Any, Any, Any]], name: str, *, retried: bool = False
) -> Task[..., Any]:
    """A task like the prototype. Making one anew reads its function's source file, a third of what a node costs."""
    delays = list(node.retry.delays()) if retried else []
    task = copy(_prototype())
    vars(task).update(
        fn=body,
        name=node.id,
        task_key=node.id,
        task_run_name=name,
        tags={tag for tag in (node.pool, node.handler) if tag},
        retries=len(delays),
        retry_delay_seconds=delays or 0,
        retry_jitter_factor=JITTER if delays and node.retry.jitter else None,
        retry_condition_fn=_may_retry if delays else None,
    )
    return task


@cache
def _prototype() -> Task[..., Any]:
    async def node() -> None:
        """Stand in for what a node does."""

    return Task(fn=node, cache_policy=NO_CACHE, persist_result=False, log_prints=False)


def _may_retry(_task: Task[..., Any], _run: TaskRun, state: "PrefectState[Any]") -> bool:
    error = state.data
    return worth_another_try(getattr(error, "result", error))


def worth_another_try(error: object) -> bool:
    """Whether a failed try may be repeated: what the partner got wrong stays wrong."""
    if isinstance(error, Broken):
        return False
    return not isinstance(error, HandlerError) or error.retryable


def grace_seconds(reason: Reason | None) -> float:
    """How long a handler that was told to stop may take to save its work and leave."""
    return DRAIN_SECONDS if reason == "draining" else CANCEL_SECONDS


def run_error(error: BaseException, node_id: str) -> RunError:
    """What went wrong, as the scheduler and the domain take it."""
    if isinstance(error, HandlerError):
        return RunError(error.code, str(error), node_id, error.partner_may_read)
    return RunError("handler-failed", f"{type(error).__name__}: {error}", node_id)


def _exception(error: object) -> BaseException:
    return error if isinstance(error, BaseException) else HandlerError(f"The task run ended without outcome: {error!r}")
