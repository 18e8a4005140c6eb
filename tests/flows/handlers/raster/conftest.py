"""What raster tests share: a handler's context over empty zones."""

from pathlib import Path

import pytest

from flows.handlers.context import Context
from tests.support.rasters import context_in


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return context_in(tmp_path)
