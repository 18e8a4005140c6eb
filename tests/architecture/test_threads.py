"""Calls stay in the event loop: plain functions FastAPI hands to a thread, which costs more than most of them do."""

import importlib
import pkgutil
from collections.abc import Iterator
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Any

import pytest
from fastapi import APIRouter, Depends
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

ROOMS = ("gateway.blueprints", "domain.api", "domain.console")


def routers(room: str) -> Iterator[APIRouter]:
    package = importlib.import_module(room)
    for module in pkgutil.iter_modules(package.__path__, f"{room}."):
        yield from (one for one in vars(importlib.import_module(module.name)).values() if isinstance(one, APIRouter))


def called(dependant: Dependant) -> Iterator[Any]:
    yield dependant.call
    for inner in dependant.dependencies:
        yield from called(inner)


def threaded(router: APIRouter) -> set[str]:
    """What a call of these routes would hand to a thread."""
    found = {one for route in router.routes if isinstance(route, APIRoute) for one in called(route.dependant)}
    return {one.__qualname__ for one in found if not iscoroutinefunction(one) and not isasyncgenfunction(one)}


@pytest.mark.parametrize("room", ROOMS)
def test_no_route_runs_in_a_thread(room: str) -> None:
    found = list(routers(room))
    assert sum(len(router.routes) for router in found) > 10
    assert set().union(*map(threaded, found)) == set()


def test_plain_function_as_a_route_is_found() -> None:
    def plain() -> int:
        return 1

    async def inner(one: int = Depends(plain)) -> int:
        return one

    router = APIRouter(dependencies=[Depends(inner)])
    router.add_api_route("/", inner)
    assert threaded(router) == {plain.__qualname__}
