"""A folder of zones, and a database to load into."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from flows.handlers.context import Context
from flows.storage import Zones
from tests.support.cluster import TestDatabase

NewContext = Callable[..., Context]


@pytest.fixture
def new_context(tmp_path: Path) -> NewContext:
    """Contexts over the same zones, each with a working folder of its own, as tries have."""
    numbers = itertools.count()

    def new(**more: Any) -> Context:
        workdir = tmp_path / f"work-{next(numbers)}"
        workdir.mkdir()
        prefix = {"output_prefix": "assets/a/0-r1/a1"}
        return Context(run_id="run", node_id="node", storage=Zones.local(tmp_path), workdir=workdir, **prefix | more)

    return new


@pytest.fixture
def loading(new_context: NewContext, shared_database: TestDatabase) -> Callable[[], Context]:
    """Contexts of handlers that declare the database."""
    return lambda: new_context(database=SecretStr(shared_database.url("cairn_loader")))
