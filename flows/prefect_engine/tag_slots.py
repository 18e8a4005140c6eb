"""Slots of the tags that operators limit: whoever works under a limited tag holds one, in a task run of its own or not.

Prefect's own engine asks its server for a slot before each task run, and where none is free asks again after as long as
slots are held on average. Here a flow run hands a slot that it has from one piece of work to the next for a while, then
gives it back and lets others ask first: thousands of small items under a limit of one cost a few questions.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import ConcurrencyLeaseHolder
from prefect.client.schemas.responses import ConcurrencyLimitWithLeaseResponse
from prefect.concurrency._leases import amaintain_concurrency_lease
from prefect.runtime import flow_run

from flows.prefect_engine.tag_limits import TagLimits, tag_limits

log = logging.getLogger("cairn.prefect")
LEASE_SECONDS = 60.0  # after which the slots of a process that died are free again
LENT_SECONDS = 5.0
ASK_SECONDS = 0.25, 1.0  # between questions, where no slot is free
AWAY_SECONDS = 2.0
CLOSED_SECONDS = 5.0
_held: ContextVar[frozenset[str]] = ContextVar("tags_whose_slots_are_held", default=frozenset())


@contextmanager
def slots_held(tags: Collection[str]) -> Iterator[None]:
    """Count these tags' slots as held inside the block: by the task run around it."""
    token = _held.set(_held.get() | frozenset(tags))
    try:
        yield
    finally:
        _held.reset(token)


def slots(tags: Collection[str], limits: TagLimits = tag_limits) -> AbstractAsyncContextManager[None]:
    """Hold a slot of each of these tags that is limited, unless what is around holds it already."""
    limited = limits.among(tags)
    return _hold(limited - _held.get()) if limited else nullcontext()


@asynccontextmanager
async def _hold(tags: frozenset[str]) -> AsyncIterator[None]:
    if not tags:
        yield
        return
    run_id = flow_run.id
    key = (asyncio.get_running_loop(), run_id, tags)
    line = _lines.setdefault(key, _Line(sorted(f"tag:{tag}" for tag in tags), UUID(run_id) if run_id else None))
    line.users += 1
    try:
        async with line.slot():
            with slots_held(tags):
                yield
    finally:
        line.users -= 1
        if not line.users:
            del _lines[key]
            await line.close()


@dataclass(eq=False)
class _Line:
    """Who waits in one flow run for a slot of the same limits."""

    names: list[str]
    run_id: UUID | None
    users: int = 0
    _waiting: "deque[asyncio.Future[asyncio.Event]]" = field(default_factory=deque)
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    _is_asking: bool = False
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it."""
        given: asyncio.Future[asyncio.Event] = asyncio.get_running_loop().create_future()
        self._waiting.append(given)
        self._ask_soon()
        try:
            left = await given
        except asyncio.CancelledError:
            if given.done() and not given.cancelled():  # at the very moment
                given.result().set()
            raise
        try:
            yield
        finally:
            left.set()

    async def close(self) -> None:
        """Wait until the slots are given back: the process may end with its flow run."""
        self._over.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSED_SECONDS)

    def _ask_soon(self) -> None:
        """Ask for a slot more, unless somebody does. In no run's context: a slot goes from one work to the next."""
        if not self._is_asking and self._next() is not None:
            self._is_asking = True
            task = asyncio.get_running_loop().create_task(self._get_and_lend(), context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _next(self) -> "asyncio.Future[asyncio.Event] | None":
        while self._waiting and self._waiting[0].done():
            self._waiting.popleft()
        return self._waiting[0] if self._waiting else None

    async def _get_and_lend(self) -> None:
        """Get a slot, lend it to those who wait, and give it back. While it is lent, another one asks for a second."""
        asks = True
        try:
            async with get_client(sync_client=False) as client:
                lease = await self._lease(client)
                asks = self._is_asking = False
                if lease is None:
                    await self._lend()
                    return
                try:
                    async with amaintain_concurrency_lease(lease, LEASE_SECONDS):
                        await self._lend()
                finally:
                    await client.release_concurrency_slots_with_lease(lease)
        except (httpx.HTTPError, OSError) as error:
            log.warning("Prefect does not answer for slots of %s (%s); asking again", self.names, type(error).__name__)
            await self._pause(AWAY_SECONDS)
        finally:
            if asks:
                self._is_asking = False
            self._ask_soon()

    async def _lease(self, client: PrefectClient) -> UUID | None:
        """Ask until there is a slot; None where nothing limits these tags any more, or nobody waits."""
        holder = ConcurrencyLeaseHolder(type="flow_run", id=self.run_id) if self.run_id else None
        while self._next() is not None:
            try:
                answer = await client.increment_concurrency_slots_with_lease(
                    names=self.names, slots=1, mode="concurrency", lease_duration=LEASE_SECONDS, holder=holder
                )
            except httpx.HTTPStatusError as error:
                if error.response.status_code != httpx.codes.LOCKED:
                    raise
                await self._pause(random.uniform(*ASK_SECONDS))  # noqa: S311 - a spread, no secret
            else:
                granted = ConcurrencyLimitWithLeaseResponse.model_validate(answer.json())
                return granted.lease_id if granted.limits else None
        return None

    async def _lend(self) -> None:
        """Hand the slot from one to the next for a while. Meanwhile another one is asked for, if somebody waits."""
        end = time.monotonic() + LENT_SECONDS
        while (waiter := self._next()) is not None and time.monotonic() < end:
            left = asyncio.Event()
            waiter.set_result(left)
            self._ask_soon()
            await left.wait()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)


_lines: "dict[tuple[asyncio.AbstractEventLoop, str | None, frozenset[str]], _Line]" = {}
