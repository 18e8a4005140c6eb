"""Whatever zones are made of, a taken-over try reaches its source, its run's products and its own folder, and nobody.

The same program in each kind of storage: it asks for, opens, links and overwrites what is another's, and calls out.
"""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import pytest

from flows.storage import Zones
from flows.tries import one_try
from flows.tries.one_try import Care, Try
from tests.support.reaching import OTHERS
from tests.support.run_facts import SECOND_ATTEMPT

SOURCE, MADE = "uploads/own/a.bin", "assets/asset/0-r1/a1/cog.tif"
# The last is how the kernel refuses to give a file a name elsewhere.
REFUSED = {"StorageForbidden", "EACCES", "EPERM", "EXDEV"}


@pytest.fixture(params=["folder", "account"])
def zones(request: pytest.FixtureRequest, tmp_path: Path) -> Zones:
    """The zones with a source, a product of the run's earlier attempt, and what is others'."""
    made: Zones
    if request.param == "folder":
        made = Zones.local(tmp_path / "zones")
    else:
        made = request.getfixturevalue("azurite").zones(f"x{uuid4().hex[:12]}-")
    made.bronze.write_bytes(SOURCE, b"own")
    made.silver.write_bytes(MADE, b"made")
    for zone, names in OTHERS.items():
        for name in names:
            getattr(made, zone).write_bytes(name, b"another's")
    return made


@pytest.fixture
def listener() -> Iterator[int]:
    """The port of somebody who would take a call."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def reached(zones: Zones, port: int) -> dict[str, str]:
    """What came of each attempt."""
    folder = getattr(zones.bronze, "root", None)
    around = {"folder": str(folder.parent) if folder else "", "port": port, "made": MADE}
    one = Try("n", "probe.gdal", {"what": "reach", "name": SOURCE, "target": json.dumps(around)}, SECOND_ATTEMPT, 120)
    seen: dict[str, Any] = one_try.run_try(one, Care(zones, Event(), lambda *_: None))["seen"]
    return seen


def others(zones: Zones) -> list[bytes]:
    return [getattr(zones, zone).read_bytes(name) for zone, names in OTHERS.items() for name in names]


@pytest.mark.parametrize("start", ["zygote"], indirect=True)
def test_taken_over_try_reaches_only_its_own_files(zones: Zones, listener: int, start: str) -> None:
    seen = reached(zones, listener)
    own = {what: told for what, told in seen.items() if what.startswith("own: ")}
    assert set(own.values()) == {"done"}, own
    strange = {what: told for what, told in seen.items() if what not in own and told not in REFUSED}
    assert strange == {}
    assert len(seen) - len(own) >= 75
    assert others(zones) == [b"another's"] * sum(map(len, OTHERS.values()))


@pytest.mark.parametrize("start", ["zygote"], indirect=True)
def test_unconfined_taken_over_try_reaches_the_network(
    zones: Zones, listener: int, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the calls would be taken. What it may ask for is judged all the same."""
    monkeypatch.setenv("CAIRN_TRY_CONFINEMENT", "off")
    seen = reached(zones, listener)
    assert {told for what, told in seen.items() if what.startswith("call ")} >= {"done"}
    assert seen["call the listener"] == "done"
    asked = {what: told for what, told in seen.items() if what.partition(" ")[0] in {"read", "overwrite", "copy"}}
    assert set(asked.values()) == {"StorageForbidden"}


@pytest.mark.parametrize("start", ["zygote"], indirect=True)
def test_memory_of_a_try_holds_no_path_or_signature_of_its_zones(zones: Zones, start: str) -> None:
    """It reads its source and then looks through its own memory. Patterns do not match themselves."""
    store: Any = zones.bronze
    places = [str(store.root)] if hasattr(store, "root") else [store.account.url, store.container]
    wanted = [f"{re.escape(place[:-1])}[{place[-1]}]" for place in (*places, "&sig=", SOURCE)]
    params = {"what": "find secrets", "name": SOURCE, "target": json.dumps(wanted)}
    seen = one_try.run_try(Try("n", "probe.gdal", params, SECOND_ATTEMPT, 120), Care(zones, Event(), lambda *_: None))[
        "seen"
    ]
    assert seen == {"read": 3, "found": [wanted[-1]]}  # its source's name is known to it, and is found
