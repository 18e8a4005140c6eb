"""Work through Prefect's own engines of task runs and flow runs, and its map: slower, and nothing of theirs replaced.

For whom a release of Prefect has broken our engines, and to hold ours against (`flows.prefect_engine.engines`).
"""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from copy import copy
from functools import wraps
from typing import Any, cast
from uuid import uuid4

from prefect import Flow, Task
from prefect.client.schemas.objects import RunInput
from prefect.client.schemas.objects import State as PrefectState
from prefect.futures import PrefectFuture, PrefectWrappedFuture
from prefect.task_engine import run_task_async
from prefect.task_runners import TaskRunner

from domain.shared.together import each_to_its_end
from flows.prefect_engine.tag_slots import slots_held

Body = Callable[..., Awaitable[PrefectState[Any]]]


class StockEngine:
    """Prefect's own engines."""

    async def run_task(self, task: Task[..., Any], *, of_many: bool = False, **parameters: Any) -> BaseException | None:
        """Run the task; return what it raised at last, if it did. Prefect holds the slots of its tags itself."""
        one, raised = copy(task), _Raised()
        tags = set() if of_many else task.tags  # else those inside would wait for what the whole holds
        vars(one).update(fn=raised.kept_of(task.fn, tags), tags=tags)
        state: PrefectState[Any] = await run_task_async(one, parameters=parameters, return_type="state")  # type: ignore[assignment]
        return None if state.is_completed() else raised.last

    async def run_mapped(
        self, task: Task[..., Any], indexes: Sequence[int], do: Callable[[int], Coroutine[Any, Any, None]]
    ) -> None:
        """Have Prefect map the task over the indexes; `do` runs one, once its turn has come."""
        if not indexes:
            return
        with _LoopTaskRunner(do) as runner:
            runner.map(task, {"index": list(indexes)})
            await each_to_its_end(runner.begun)

    async def run_inner(
        self, body: Callable[[], Coroutine[Any, Any, PrefectState[Any]]], name: str, version: str, run_name: str
    ) -> None:
        """Run this as a flow run inside the one around it; raise what it raised."""
        raised, heeding = _Raised(), _heeding_sigterm()

        async def inner() -> PrefectState[Any]:
            heeding()  # Prefect's engine has just replaced who hears of SIGTERM
            return await body()

        flow: Flow[..., Any] = Flow(
            fn=raised.kept_of(inner, ()),
            name=name,
            version=version,
            flow_run_name=run_name,
            validate_parameters=False,
            persist_result=False,
            log_prints=False,
        )
        await cast("Awaitable[Any]", flow(return_state=True))
        if raised.last is not None:
            raise raised.last


class _Raised:
    """What a function raised when it was last called."""

    last: Exception | None = None

    def kept_of(self, function: Body, tags: Iterable[str]) -> Body:
        @wraps(function)
        async def kept(*arguments: Any, **named: Any) -> PrefectState[Any]:
            self.last = None
            try:
                with slots_held(frozenset(tags)):
                    return await function(*arguments, **named)
            except Exception as error:
                self.last = error
                raise

        return kept


class _Begun(PrefectWrappedFuture[None, "asyncio.Task[None]"]):
    """One of what is mapped. It is awaited in its loop, which nobody may hold up."""

    def wait(self, timeout: float | None = None) -> None:
        raise NotImplementedError

    def result(self, timeout: float | None = None, raise_on_failure: bool = True) -> None:
        raise NotImplementedError


class _LoopTaskRunner(TaskRunner[_Begun]):
    """Begins what is mapped in the flow's own event loop, where our run is at home: no thread for each."""

    def __init__(self, do: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.do = do
        self.begun: list[asyncio.Task[None]] = []

    def duplicate(self) -> "_LoopTaskRunner":
        return _LoopTaskRunner(self.do)

    def submit(
        self,
        task: Task[..., Any],
        parameters: dict[str, Any],
        wait_for: Iterable[PrefectFuture[Any]] | None = None,
        dependencies: dict[str, set[RunInput]] | None = None,
    ) -> _Begun:
        self.begun.append(asyncio.create_task(self.do(parameters["index"])))
        return _Begun(uuid4(), self.begun[-1])


def _heeding_sigterm() -> Callable[[], None]:
    """Return what makes SIGTERM be heard again by whoever hears of it now."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    heard_by = signal.getsignal(signal.SIGTERM)

    def heed() -> None:
        signal.signal(signal.SIGTERM, heard_by)

    return heed
