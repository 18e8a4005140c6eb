"""The work pools: each is one entry here, which compiler, relay, rollout, stack, doctor and commands read.

No other module names a pool, but a handler's declaration, which says where it runs. Files that cannot read Python are
held against the entries by `tests/deployments/test_pool_files.py`. Knows the standard library only.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

INLINE, PROCESS = "cairn-inline", "process"  # the types of worker that `cairn worker start` runs
QUEUES = MappingProxyType({"high": 1, "normal": 2, "low": 3})  # by priority, with the order in which workers look
SHARED = "shared:"  # and a run's id: the tag of child runs that share a fan-out, one of them for each worker
SEGMENT_FLOW = "segment"  # how the flow of child runs is called; each pool has a deployment of it


class BadPool(ValueError):
    """An entry says what cannot be, or two entries contradict each other."""


@dataclass(frozen=True)
class WorkPool:
    """One work pool. Whatever differs between pools is a field, and asked of the entry."""

    name: str
    description: str
    """What operators read in Prefect."""
    worker_type: str
    """Which worker runs its flow runs: INLINE, as tasks of the worker itself, or PROCESS, as forks of its zygote. Its
    base job template is `deployments/pools/{worker_type}.json`; operators may choose another kind of worker."""
    image: str
    """What containers start from: a target of Dockerfile.worker builds it."""
    extra: str
    """The extra of pyproject.toml that its image installs, by `deployments/locked/{extra}.txt`."""
    offers: tuple[str, ...] = ()
    """What handlers may need that not every worker has. A handler runs on pools that offer all that its own offers."""
    is_home: bool = False
    """Whether runs live here that work on several pools or wait for others. One pool is home."""
    is_confined: bool = False
    """Whether each try runs in a confined process without secrets, forked by the zygote; else it runs in a thread."""
    is_told_database: bool = False
    """Whether its workers get the credential of handlers that declare a database."""
    preloads: tuple[str, ...] = ()
    """Packages of handlers that the zygote imports, so that forks need not."""
    old_names: tuple[str, ...] = ()
    """What workflows of earlier platforms call it."""
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By type of worker: variables of the base job template that are not as the template has them."""
    queues: Mapping[str, int] = field(default_factory=lambda: QUEUES)

    def __post_init__(self) -> None:
        if self.worker_type not in {INLINE, PROCESS}:
            raise BadPool(f"Pool {self.name!r}: `cairn worker start` runs {INLINE} or {PROCESS}.")
        if self.is_confined and self.worker_type == INLINE:
            raise BadPool(f"Pool {self.name!r}: confined tries need a zygote, which {INLINE} workers have not.")
        if self.is_confined and self.is_told_database:
            raise BadPool(f"Pool {self.name!r}: where strangers' files are opened there is no credential to steal.")
        if self.is_home and self.worker_type != INLINE:
            raise BadPool(f"Pool {self.name!r}: parents that wait by the hundred need a worker of type {INLINE}.")
        if self.queues.keys() != QUEUES.keys():
            raise BadPool(f"Pool {self.name!r}: runs go to the queue of their priority: {', '.join(QUEUES)}.")

    @property
    def worker(self) -> str:
        """What the stack, Compose and Kubernetes call its worker."""
        return f"worker-{self.name}"


class WorkPools(Mapping[str, WorkPool]):
    """All pools by name, from the one with the most room to the one with the least."""

    def __init__(self, *pools: WorkPool) -> None:
        self._by_name = {pool.name: pool for pool in pools}
        names = [name for pool in pools for name in (pool.name, *pool.old_names)]
        if len(set(names)) < len(names):
            raise BadPool(f"Two pools have the same name: {', '.join(names)}.")
        if sum(pool.is_home for pool in pools) != 1:
            raise BadPool("One pool is home, and no more.")

    def __getitem__(self, name: str) -> WorkPool:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def home(self) -> str:
        """Where runs live that work on several pools or wait for others."""
        return next(name for name, pool in self.items() if pool.is_home)

    def scarcest(self, names: Iterable[str]) -> str:
        """Of these the one with the least room; home, where there is none. A plan may name one that is gone."""
        return max((name for name in names if name in self), key=list(self).index, default=self.home)

    def lacking(self, place: str, needed_by: str) -> list[str]:
        """What one pool does not offer of what handlers of another may need."""
        return [thing for thing in self[needed_by].offers if thing not in self[place].offers]

    def confined(self) -> list[str]:
        """Where strangers' files are opened."""
        return [name for name, pool in self.items() if pool.is_confined]

    def told_database(self) -> list[str]:
        """Whose handlers may declare a database."""
        return [name for name, pool in self.items() if pool.is_told_database]


POOLS = WorkPools(
    WorkPool(
        "light",
        "Small handlers, waiting parents",
        INLINE,
        image="cairn-worker-light",
        extra="light",
        is_home=True,
        is_told_database=True,
        old_names=("functionapp-tasks",),
        sizes={
            "docker": {"mem_limit": "1g"},
            "kubernetes": {"cpu_request": "250m", "cpu_limit": "1", "memory_request": "512Mi", "memory_limit": "1Gi"},
            "azure-container-instance": {"cpu": 1.0, "memory": 1.5},
        },
    ),
    WorkPool(
        "gdal",
        "Raster and vector work",
        PROCESS,
        image="cairn-worker-gdal",
        extra="gdal",
        offers=("GDAL",),
        is_confined=True,
        preloads=("flows.handlers.raster", "flows.handlers.vector"),
        old_names=("container-tasks",),
    ),
)
