"""TiTiler's parameters are read as it declares them, and not in threads."""

import inspect
import threading
from collections.abc import Callable
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Query
from titiler.core import dependencies

from gateway.serving import parameters

PAIRS = [
    (parameters.BANDS, dependencies.BidxParams),
    (parameters.COLORMAP, dependencies.ColorMapParams),
    (parameters.DATASET, dependencies.DatasetParams),
    (parameters.READER, dependencies.DefaultDependency),
    (parameters.RENDERING, dependencies.ImageRenderingParams),
    (parameters.TILE, dependencies.TileParams),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
async def test_parameters_equal_those_of_titiler(ours: Callable[..., Any], theirs: Callable[..., Any]) -> None:
    assert inspect.signature(ours) == inspect.signature(theirs, eval_str=True)
    assert await ours() == theirs()


def _where(number: Annotated[int, Query(alias="n")] = 0) -> tuple[int, int]:
    return number, threading.get_ident()


@pytest.mark.parametrize(("dependency", "is_here"), [(_where, False), (parameters.at_once(_where), True)])
async def test_parameters_are_read_in_the_event_loops_thread(dependency: Callable[..., Any], is_here: bool) -> None:
    app = FastAPI()

    @app.get("/")
    async def answer(found: Annotated[tuple[int, int], Depends(dependency)]) -> tuple[int, bool]:
        return found[0], found[1] == threading.get_ident()

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as http:
        assert (await http.get("/?n=3")).json() == [3, is_here]
        assert (await http.get("/?n=x")).status_code == 422
