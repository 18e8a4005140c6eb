"""A store of each kind."""

from pathlib import Path
from uuid import uuid4

import pytest

from flows.storage import Store, Zones
from tests.support.azurite import Azurite


@pytest.fixture(params=["local", "azure"])
def zones(request: pytest.FixtureRequest, tmp_path: Path) -> Zones:
    """Fresh zones of one kind."""
    if request.param == "local":
        return Zones.local(tmp_path)
    azurite: Azurite = request.getfixturevalue("azurite")
    return azurite.zones(f"t{uuid4().hex[:12]}-")


@pytest.fixture
def store(zones: Zones) -> Store:
    return zones.silver
