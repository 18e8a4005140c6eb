"""The handlers that workflows may name: their declarations, without the libraries that do the work.

A declaration is a plain function whose body imports its implementation, so that the compiler, the domain and the
light image know every handler's parameters and result and never load GDAL.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import BaseModel

from flows.handlers.context import Context
from flows.pools import POOLS

DEFAULT_TIMEOUT_SECONDS = 3600.0

# Where declarations live. A new family is one line here.
FAMILIES = (
    "flows.handlers.examples",
    "flows.handlers.trials",
    "flows.handlers.raster.declarations",
    "flows.handlers.raster.tile_declarations",
    "flows.handlers.vector.declarations",
    "flows.handlers.stac.declarations",
    "flows.handlers.export",
)

Params = TypeVar("Params", bound=BaseModel)
Result = TypeVar("Result", bound=BaseModel)


@dataclass(frozen=True)
class Handler(Generic[Params, Result]):
    """One handler: what it takes, what it returns, where and how long it may run."""

    name: str
    pool: str
    timeout_seconds: float
    params: type[Params]
    result: type[Result]
    example: Result
    summary: str
    planned: bool
    database: bool
    publishes: bool
    function: Callable[[Params, Context], Result]

    @property
    def leaves_artifacts(self) -> bool:
        """Whether it leaves files that are to be kept, which belong to an asset."""
        return "artifacts" in self.result.model_fields

    def __call__(self, params: Params, context: Context) -> Result:
        return self.function(params, context)


AnyHandler = Handler[Any, Any]
_declared: dict[str, AnyHandler] = {}


def handler(
    name: str,
    *,
    pool: str,
    example: Result,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    planned: bool = False,
    database: bool = False,
    publishes: bool = False,
) -> Callable[[Callable[[Params, Context], Result]], Handler[Params, Result]]:
    """Declare the function as the handler of this name. `example` is a result that simulations may use.

    `database` handlers are given a credential, so their pool is told it: a process that opens senders' files has none.
    `publishes` handlers put things where everybody may read them, or take them away: only the service orders such runs
    """
    if pool not in POOLS:
        raise ValueError(f"Handler {name!r} names the pool {pool!r}; flows/pools.py has {', '.join(POOLS)}.")
    if database and not POOLS[pool].is_told_database:
        told = " and ".join(POOLS.told_database())
        raise ValueError(f"Handler {name!r} asks for the database: only {told} handlers are given a credential.")

    def declare(function: Callable[[Params, Context], Result]) -> Handler[Params, Result]:
        hints = get_type_hints(function)
        params, result = hints["params"], hints["return"]
        summary = (inspect.getdoc(function) or "").partition("\n")[0]
        declared = Handler(
            name, pool, timeout_seconds, params, result, example, summary, planned, database, publishes, function
        )
        if name in _declared and _declared[name].function.__module__ != function.__module__:
            raise ValueError(f"Handler {name!r} is declared twice: {function.__module__} and elsewhere.")
        _declared[name] = declared
        return declared

    return declare


class UnknownHandler(KeyError):
    """No handler of that name is declared."""


@dataclass(frozen=True)
class Registry(Mapping[str, AnyHandler]):
    """All declared handlers by name."""

    handlers: Mapping[str, AnyHandler]

    def __getitem__(self, name: str) -> AnyHandler:
        try:
            return self.handlers[name]
        except KeyError:
            raise UnknownHandler(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.handlers)

    def __len__(self) -> int:
        return len(self.handlers)


@cache
def registry() -> Registry:
    """Every handler of every family, sorted by name."""
    for family in FAMILIES:
        import_module(family)
    return Registry(MappingProxyType(dict(sorted(_declared.items()))))
