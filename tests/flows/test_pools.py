"""The registry of work pools: what an entry may say, and what follows from the entries together."""

from dataclasses import replace
from typing import Any

import pytest

from flows.handlers.examples import EchoResult, echo
from flows.handlers.registry import handler
from flows.pools import INLINE, POOLS, PROCESS, QUEUES, BadPool, WorkPool, WorkPools
from tests.support.one_more_pool import GPU

LIGHT, GDAL = POOLS["light"], POOLS["gdal"]


def test_pools_are_called_as_operators_and_workflows_know_them() -> None:
    assert list(POOLS) == ["light", "gdal"]
    assert [pool.worker for pool in POOLS.values()] == ["worker-light", "worker-gdal"]
    assert [pool.worker_type for pool in POOLS.values()] == ["cairn-inline", "process"]
    assert [pool.image for pool in POOLS.values()] == ["cairn-worker-light", "cairn-worker-gdal"]
    assert [pool.old_names for pool in POOLS.values()] == [("functionapp-tasks",), ("container-tasks",)]
    assert dict(QUEUES) == {"high": 1, "normal": 2, "low": 3}
    assert all(pool.queues == QUEUES for pool in POOLS.values())


@pytest.mark.parametrize(
    ("pool", "change", "told"),
    [
        (LIGHT, {"worker_type": "kubernetes"}, "runs cairn-inline or process"),
        (LIGHT, {"is_confined": True}, "need a zygote"),
        (LIGHT, {"worker_type": PROCESS}, "parents that wait"),
        (GDAL, {"worker_type": INLINE}, "need a zygote"),
        (GDAL, {"is_told_database": True}, "no credential to steal"),
        (GDAL, {"queues": {"high": 1}}, "high, normal, low"),
    ],
)
def test_an_entry_that_cannot_be_is_refused(pool: WorkPool, change: dict[str, Any], told: str) -> None:
    with pytest.raises(BadPool, match=told):
        replace(pool, **change)


def test_entries_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(BadPool, match="same name"):
        WorkPools(LIGHT, GDAL, replace(GPU, name="functionapp-tasks"))
    with pytest.raises(BadPool, match="same name"):
        WorkPools(LIGHT, GDAL, GDAL)
    with pytest.raises(BadPool, match="One pool is home"):
        WorkPools(GDAL)
    with pytest.raises(BadPool, match="One pool is home"):
        WorkPools(LIGHT, replace(LIGHT, name="lighter", old_names=()))


def test_the_scarcest_pool_stands_last_and_what_is_gone_counts_for_nothing() -> None:
    pools = WorkPools(LIGHT, GDAL, GPU)
    assert pools.scarcest({"gdal", "light"}) == "gdal"
    assert pools.scarcest({"gpu", "gdal", "light"}) == "gpu"
    assert pools.scarcest({"gone", "gdal"}) == "gdal"
    assert pools.scarcest({"gone"}) == pools.scarcest(()) == pools.home == "light"


def test_capabilities_that_a_pool_lacks_are_named() -> None:
    pools = WorkPools(LIGHT, GDAL, GPU)
    assert pools.lacking("light", needed_by="gdal") == ["GDAL"]
    assert pools.lacking("gdal", needed_by="gpu") == ["a GPU"]
    assert pools.lacking("gpu", needed_by="gdal") == pools.lacking("gdal", needed_by="light") == []


def test_a_handler_names_a_pool_that_there_is() -> None:
    with pytest.raises(ValueError, match=r"names the pool 'gpu'; flows/pools\.py has light, gdal\."):
        handler("test.nowhere", pool="gpu", example=EchoResult(echoed_params={}))(echo.function)
