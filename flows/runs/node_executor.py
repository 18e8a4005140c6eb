"""One piece of work, a node or an item of a fan-out: its tries and its memory. Knows nothing of Prefect.

What is a task run of its own is retried by Prefect (`flows.prefect_engine.node_tasks`). Items of a large fan-out share
task runs, and what runs inside an item has none: those are retried here, in the same way.
"""

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from domain.contracts.artifacts import Artifact
from domain.contracts.runs import NodeEvent, NodeState
from domain.rules.texts import made_storable
from flows.compiler import Item, Node, NodeOutcome, RunError, State
from flows.handlers.errors import Broken, Outage, Outlasted, Stopped
from flows.log_items import about_item
from flows.memory.large_values import DamagedValue, Stored, lies_in_storage, made_plain
from flows.memory.ledger import LedgerEntry, digest, error_json
from flows.memory.measured import is_metric
from flows.runs.events import run_problem
from flows.runs.outages import outage_of
from flows.runs.run_context import RunContext
from flows.runs.stopping import Stop
from flows.runs.try_errors import log_failure, run_error, worth_another_try
from flows.storage.threads import in_storage_thread
from flows.tries import one_try
from flows.tries.one_try import Care, Try
from flows.tries.time_budget import LOOK_SECONDS, Outlasting, grace_seconds

log = logging.getLogger("cairn.work")
TIMEOUT_SECONDS = 3600.0
MESSAGE_LENGTH = 500


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

    async def run_workflow(self, work: Work, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Run the sub-workflow and return its outputs; raise if it fails."""


@dataclass
class NodeExecutor:
    """Does pieces of work for one runner, each until it has succeeded or is not worth another try."""

    run_context: RunContext
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
        self.run_context.places.let_go()

    async def try_through_outages(self, work: Work, number: int) -> Mapping[str, Any]:
        """Make one try, again for as long as it ends because something of ours is away. Its log lines name its item."""
        if work.item is None:
            return await self._try_until_nothing_is_away(work, number)
        with about_item(work.item.index, work.item.key, number):
            return await self._try_until_nothing_is_away(work, number)

    async def _try_until_nothing_is_away(self, work: Work, number: int) -> Mapping[str, Any]:
        waiting = Outlasting(self.run_context.outage_seconds)
        if number:
            self._tell(work, "running", tries=number + 1)
        while True:
            try:
                return await self._try_in_free_place(work, number)
            except Exception as error:
                if (away := outage_of(error)) is None:
                    self._tell_retry(work, number, error)
                    raise
                if self.stop.is_set():
                    raise Stopped("The run was asked to stop.") from error
                pause = waiting.pause(now := time.monotonic(), random.random())  # noqa: S311 - a spread, no secret
                if pause is None:
                    raise Outlasted(f"{away} It was away for {waiting.seconds(now):.0f} s.") from error
                await self._wait_out(work, away, pause)

    def _tell_retry(self, work: Work, number: int, error: Exception) -> None:
        """Tell that another try follows the failed one, and why. Tries of items are counted."""
        if number >= len(work.node.retry.delays()) or not self.may_retry(error):
            return
        if work.item is not None:
            self.run_context.retried[work.path] += 1
        else:
            self._tell(work, "ready", tries=number + 1, problem=run_problem(run_error(error, work.node.id)))

    def _tell(self, work: Work, state: NodeState, **more: Any) -> None:
        """Tell the domain of a node of the run. Items and nodes of sub-workflows are counted instead."""
        if work.item is None and "." not in work.path:
            self.run_context.line.note(NodeEvent(node_id=work.node.id, state=state, **more))

    async def _wait_out(self, work: Work, away: Outage, seconds: float) -> None:
        """Wait for what is away, and say so. Only a stop ends it early."""
        log.warning("%s: waits for what is away. %s", work.name, away)
        self._progress(work)(None, f"Waits: {away}")
        with self.at_work(self._busy):
            for _ in range(math.ceil(seconds / LOOK_SECONDS)):
                if self.stop.is_set():
                    return
                await asyncio.sleep(LOOK_SECONDS)

    async def _try_in_free_place(self, work: Work, number: int) -> Mapping[str, Any]:
        """Make one try once there is a place for it. A sub-workflow only waits for other work and takes none."""
        if work.node.workflow is not None and self.workflows is not None:
            return await self._try_and_remember(work, number)
        async with self.run_context.slots(work.node.tags):
            with self.at_work(self._busy):
                async with self.run_context.places.hold_place(self.stop.is_set):
                    return await self._try_and_remember(work, number)

    async def _try_and_remember(self, work: Work, number: int) -> Mapping[str, Any]:
        """Make one try. What succeeded is remembered before anybody hears of it, and where it is large only there."""
        if self.stop.is_set():
            raise Stopped("The run was asked to stop.")
        with self.at_work(self._busy):
            await self.run_context.make_sure(self.stop)
            started = time.time()
            if work.node.workflow is not None and self.workflows is not None:
                output = await self.workflows.run_workflow(work, await made_plain(work.params))
                remember = partial(self._remember, work, number, started, output)
                stored: Mapping[str, Any] = await in_storage_thread(self._wait_out_storage, remember)
            else:
                output, stored = await self._run_handler(work, number, started)
        self.run_context.artifacts += [Artifact.model_validate(each) for each in output.get("artifacts") or []]
        return stored

    async def run_with_retries(self, work: Work) -> tuple[NodeOutcome, int]:
        """Try the work until it succeeds or has no tries left, without a task run of its own; how, after how many."""
        with self.at_work():
            return await self._retry_until_done(work)

    async def _retry_until_done(self, work: Work) -> tuple[NodeOutcome, int]:
        delays = work.node.retry.delays()
        number = 0
        while True:
            try:
                return NodeOutcome(State.COMPLETED, await self.try_through_outages(work, number)), number + 1
            except Broken:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a handler raises is its failure, not ours
                if number >= len(delays) or not self.may_retry(error):
                    log_failure(work.item, number, error, stops=self.stop.is_set())
                    return await self.outcome_of_failure(work, number, error), number + 1
                seconds = work.node.retry.wait(number, random.random())  # noqa: S311 - a spread, no secret
                log_failure(work.item, number, error, next_in_seconds=seconds, stops=self.stop.is_set())
            await asyncio.sleep(seconds)
            number += 1

    async def outcome_of_failure(self, work: Work, number: int, error: BaseException) -> NodeOutcome:
        """The outcome of work that failed for good, or was stopped. No stop cuts it short: the failure has happened."""
        with self.at_work(self._busy):
            return await self._remembered_failure(work, number, error)

    async def _remembered_failure(self, work: Work, number: int, error: BaseException) -> NodeOutcome:
        told = run_error(error, work.node.id)
        if self._is_cut_short(work, number, error):  # it is to be done again, so nobody remembers how it ended
            return NodeOutcome(State.CANCELLED, None, told)
        remember = partial(self._remember, work, number, None, None, told)
        is_away = outage_of(error) is not None  # it may be the very place where this would be remembered
        with contextlib.suppress(Exception if is_away else Stopped):  # stopped: the work is another's by now
            await in_storage_thread(*((remember,) if is_away else (self._wait_out_storage, remember)))
        return NodeOutcome(State.FAILED, None, told)

    def _wait_out_storage(self, call: Callable[[], Any]) -> Any:
        """Make the call, waiting out an outage of run storage. Called in a thread."""
        return self.run_context.runs(self.stop).outlast(call)

    def may_retry(self, error: object) -> bool:
        """Whether another try may follow a failed one. Not while the run stops: it would only sleep."""
        return not self.stop.is_set() and worth_another_try(error)

    def _is_cut_short(self, work: Work, number: int, error: BaseException) -> bool:
        """Whether the stop ended this work, be it that a handler made another error of it and has tries left."""
        has_tries_left = number < len(work.node.retry.delays()) and worth_another_try(error)
        return self.stop.is_set() and (isinstance(error, Stopped) or has_tries_left)

    async def remembered_node(self, work: Work) -> NodeOutcome | None:
        """How the node ended, if an earlier attempt did it."""
        ledger = self.run_context.ledger
        if ledger.is_new(work.path):
            return None
        return await in_storage_thread(lambda: self._if_undamaged(ledger.node_outcome(work.path, work.digest)))

    async def remembered_item(self, entries: Mapping[str, LedgerEntry], work: Work) -> NodeOutcome | None:
        """How an item ended if an earlier attempt did it."""
        if work.item is None or (entry := entries.get(work.item.key)) is None:
            return None
        key, is_kept = work.item.key, "stored" in (entry.output or {})

        def look() -> NodeOutcome | None:
            return self._if_undamaged(self.run_context.ledger.item_outcome(entries, key, work.digest))

        return await in_storage_thread(look) if is_kept or lies_in_storage(work.params) else look()

    def _if_undamaged(self, outcome: NodeOutcome | None) -> NodeOutcome | None:
        """Take what is remembered, unless it was kept and is damaged: then the work is done again, and kept anew."""
        if outcome is not None and isinstance(outcome.output, Mapping):
            try:
                output = outcome.output.read() if isinstance(outcome.output, Stored) else outcome.output
            except DamagedValue as damage:
                log.warning("what was kept is damaged; its work is done again", extra={"reason": str(damage)})
                return None
            self.run_context.artifacts += [Artifact.model_validate(each) for each in output.get("artifacts") or []]
        return outcome

    async def _run_handler(self, work: Work, number: int, started: float) -> tuple[dict[str, Any], Mapping[str, Any]]:
        """Run the handler; return its result, and that as it was kept in the thread in which it was made."""
        handler = work.node.handler
        assert handler is not None  # noqa: S101 - what runs no workflow has a handler
        attempt = Try(
            node_id=work.name,
            handler=handler,
            params=await made_plain(work.params),
            facts=self.run_context.facts,
            timeout_seconds=work.node.timeout_seconds or TIMEOUT_SECONDS,
            item_key=work.item.key if work.item else None,
            number=number,
            memory=self.run_context.ledger.memory,
        )
        metrics: dict[str, float] = {}
        measure = partial(self.run_context.ledger.measure, work.name, self.run_context.worker, started, metrics)
        stored: list[Mapping[str, Any]] = []

        def metric(name: str, value: float) -> None:
            if is_metric(name, value):
                metrics[name] = metrics.get(name, 0.0) + value

        def keep(output: dict[str, Any]) -> None:
            if metrics:
                self._wait_out_storage(measure)
            remember = partial(self._remember, work, number, started, output, metrics=metrics)
            stored.append(self._wait_out_storage(remember))  # else the work would be done again

        care = Care(
            zones=self.run_context.zones,
            stop=self.stop.event,
            progress=self._progress(work),
            metric=metric,
            grace_seconds=lambda: grace_seconds(self.stop.reason),
            keep=keep,
        )
        try:
            if one_try.is_light(handler):
                return await one_try.run_light_try(attempt, care), stored[0]
            return await self._in_thread(partial(one_try.run_try, attempt, care)), stored[0]
        except Exception:
            if metrics and not stored:  # what failed has cost as much
                with contextlib.suppress(Exception):
                    await in_storage_thread(measure)
            raise

    # --- in threads ---

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        """Make the call in a thread that logs as this run does."""
        return await asyncio.get_running_loop().run_in_executor(self.run_context.threads, copy_context().run, call)

    def _remember(
        self,
        work: Work,
        number: int,
        started: float | None,
        output: dict[str, Any] | None,
        error: RunError | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> Any:
        """Write down how the work ended; return the output as later nodes are given it."""
        ledger, now = self.run_context.ledger, time.time()
        told = None if output is None else ledger.values.dump(output)
        ledger.record(
            LedgerEntry(
                node=work.path,
                digest=work.digest,
                state=(State.FAILED if error else State.COMPLETED).value,
                tries=number + 1,
                worker=self.run_context.worker,
                started_at=started or now,
                ended_at=now,
                index=work.item.index if work.item else None,
                key=work.item.key if work.item else None,
                output=told,
                error=error_json(error) if error else None,
                metrics=metrics or None,
            )
        )
        return told and ledger.values.load(told)

    def _progress(self, work: Work) -> Callable[[float | None, str], None]:
        """Tells how far a node of the run is. Items and nodes of sub-workflows are counted instead."""
        if work.item is not None or "." in work.path:
            return lambda *_: None
        loop, line = asyncio.get_running_loop(), self.run_context.line

        def progress(fraction: float | None, message: str) -> None:
            """Called from the handler's thread; heartbeats are sent by the loop's."""
            event = NodeEvent(
                node_id=work.node.id,
                state="running",
                fraction=None if fraction is None else min(max(fraction, 0), 1),
                message=made_storable(message[:MESSAGE_LENGTH]),
            )
            loop.call_soon_threadsafe(line.note, event)

        return progress
