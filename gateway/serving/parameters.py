"""Declares TiTiler's parameters so that they are read in the event loop's thread.

TiTiler declares them as plain functions and classes, and FastAPI runs each of these in a thread of its pool: six for a
tile, for a few comparisons. Knows no product and no pixel.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from titiler.core import dependencies

Dependency = TypeVar("Dependency", bound=Callable[..., Any])


def at_once(made: Dependency) -> Dependency:
    """Return the same dependency with the same parameters as a coroutine, which FastAPI runs in the event loop."""

    async def make(**given: Any) -> Any:
        return made(**given)

    make.__signature__ = inspect.signature(made, eval_str=True)  # type: ignore[attr-defined]
    return cast("Dependency", make)


BANDS: Final = at_once(dependencies.BidxParams)  # by number; no expressions
COLORMAP: Final = at_once(dependencies.ColorMapParams)
DATASET: Final = at_once(dependencies.DatasetParams)
RENDERING: Final = at_once(dependencies.ImageRenderingParams)
TILE: Final = at_once(dependencies.TileParams)
READER: Final = at_once(dependencies.DefaultDependency)
