"""The engine that a flow run's work goes through: ours, or Prefect's own, as `CAIRN_ENGINE` says.

Both do the same by the same scheduler, and one contract holds them together (`tests/flows/prefect_engine`).
"""

from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from typing import Any, Literal, Protocol

from prefect import Task
from prefect.client.schemas.objects import State as PrefectState

from domain.shared.together import each_to_its_end
from flows.prefect_engine import flow_run, task_run

EngineName = Literal["fast", "stock"]


class Engine(Protocol):
    """Runs task runs and flow runs inside the flow run that is around it."""

    async def run_task(self, task: Task[..., Any], *, of_many: bool = False, **parameters: Any) -> BaseException | None:
        """Run the task, whose function returns the state it ends in; return what it raised at last, if it did."""

    async def run_mapped(
        self, task: Task[..., Any], indexes: Sequence[int], do: Callable[[int], Coroutine[Any, Any, None]]
    ) -> None:
        """Run the task for each index; `do` runs one of them, by `run_task`."""

    async def run_inner(
        self, body: Callable[[], Coroutine[Any, Any, PrefectState[Any]]], name: str, version: str, run_name: str
    ) -> None:
        """Run this as a flow run of its own, which ends in the state that it returns; raise what it raised."""


class FastEngine:
    """Ours: it asks Prefect's server for less, and tells it less."""

    async def run_task(self, task: Task[..., Any], *, of_many: bool = False, **parameters: Any) -> BaseException | None:
        return await task_run.run_task(task, of_many=of_many, **parameters)

    async def run_mapped(
        self, task: Task[..., Any], indexes: Sequence[int], do: Callable[[int], Coroutine[Any, Any, None]]
    ) -> None:
        await each_to_its_end(do(index) for index in indexes)

    async def run_inner(
        self, body: Callable[[], Coroutine[Any, Any, PrefectState[Any]]], name: str, version: str, run_name: str
    ) -> None:
        await flow_run.run_as_inner_flow_run(body, name, version, run_name)


_engine: ContextVar[Engine] = ContextVar("engine", default=FastEngine())  # noqa: B039 - it has no state


def use_engine(name: EngineName) -> None:
    """Have this flow run's work go through the engine of this name."""
    if name == "fast":
        _engine.set(FastEngine())
        return
    from flows.prefect_engine.stock import StockEngine

    _engine.set(StockEngine())


def engine() -> Engine:
    """The engine of the flow run around."""
    return _engine.get()
