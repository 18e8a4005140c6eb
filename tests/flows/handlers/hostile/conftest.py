"""What the tests of hostile files share: a warm process that tries are forked from."""

import os
from collections.abc import Iterator

import pytest

from flows.tries.fork_client import ADDRESS
from tests.support import hostile_probes
from tests.support.zygotes import Zygote


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """A gdal pool's zygote; this process's tries are forked from it."""
    running, before = Zygote("tests.support.hostile_probes", "gdal"), os.environ.get(ADDRESS)
    os.environ[ADDRESS] = running.name
    hostile_probes.declare()
    yield running
    hostile_probes.forget()
    del os.environ[ADDRESS]
    if before is not None:
        os.environ[ADDRESS] = before
    running.end()
