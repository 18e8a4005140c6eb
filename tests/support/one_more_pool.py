"""A pool `gpu` that nobody knows of but the registry: its entry, and a handler that runs there.

`python -m tests.support.one_more_pool MODULE …` runs a module in a process whose registry has the entry. Nothing else
is changed in it: what the module makes of the pool, it makes of the entry.
"""

import runpy
import sys

from pydantic import BaseModel

from flows import pools
from flows.handlers.context import Context

GPU = pools.WorkPool(
    "gpu",
    "Models, and pixels by the million",
    pools.PROCESS,
    image="cairn-worker-gpu",
    extra="gpu",
    offers=("GDAL", "a GPU"),
    is_confined=True,
    preloads=("flows.handlers.raster",),
    old_names=("gpu-tasks",),
    sizes={"kubernetes": {"cpu_limit": "8", "memory_limit": "32Gi"}},
)
HANDLER = "probe.infer"


class Scene(BaseModel):
    """What is looked at."""

    scene: str = "a scene"


class Found(BaseModel):
    """What was seen there."""

    roofs: int = 3


def infer(params: Scene, context: Context) -> Found:
    """Count roofs."""
    return Found()


def add() -> None:
    """Put the entry where the others are, before anything else reads them."""
    pools.POOLS._by_name[GPU.name] = GPU


def declare() -> None:
    """Make the handler known to this process."""
    from flows.handlers import registry

    registry.handler(HANDLER, pool=GPU.name, example=Found())(infer)
    registry.registry.cache_clear()


if __name__ == "__main__":
    add()
    declare()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
