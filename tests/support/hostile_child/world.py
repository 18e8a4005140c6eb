"""What lies around a hostile child: where its zones are, what of it is its own, and how it is let loose."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from domain.contracts.runs import RunFacts
from flows import tries
from flows.storage import Zones
from flows.tries import Care, Try
from tests.support.hostile_child import handler
from tests.support.hostile_child.attempts import Aims

FACTS = RunFacts(
    id="run",
    request_id="request",
    received_at=datetime(2026, 1, 1, tzinfo=UTC),
    attempt=1,
    asset_id="asset",
    version_ordinal=0,
    revision=1,
)
HOME = "assets/asset/0-r1"
SOURCE, ANOTHERS = b"the try's source", b"another's product"
PRODUCT = "assets/other/0-r1/a1/x"
Outcome = dict[str, dict[str, str]]


@dataclass
class Storage:
    """Where the zones lie, and what lies in them that is the try's and that is not."""

    zones: Zones
    source: Path
    another: Path
    product: Path


def folder(root: Path) -> Storage:
    """All zones in one folder."""
    zones = Zones.local(root / "zones")
    zones.bronze.write_bytes("in/a.tif", SOURCE)
    zones.bronze.write_bytes("in/other.tif", b"another's upload")
    zones.silver.write_bytes(PRODUCT, ANOTHERS)
    bronze, silver = root / "zones/bronze/in", root / "zones/silver"
    return Storage(zones, bronze / "a.tif", bronze / "other.tif", silver / PRODUCT)


# Each further mode belongs here: the attempts are the same.
STORAGE: dict[str, Callable[[Path], Storage]] = {"folder": folder}


@dataclass
class World:
    """What there is to be reached around a try, and the try."""

    storage: Storage
    aims: Aims

    def attack(self, kinds: Sequence[str] = (), without: Sequence[str] = (), only: str = "") -> Outcome:
        given = {"kinds": list(kinds), "without": list(without), "only": only}
        params = {"source": "in/a.tif", "aims": asdict(self.aims), **given}
        outcome: Outcome = self.run(handler.NAME, params)["outcome"]
        return outcome

    def unharmed(self) -> bool:
        """Whether what the try may read, and what is another's, is as it was."""
        zones = self.storage.zones
        return zones.bronze.read_bytes("in/a.tif") == SOURCE and zones.silver.read_bytes(PRODUCT) == ANOTHERS

    def mend(self) -> None:
        """After holes through which it was changed."""
        self.storage.zones.bronze.write_bytes("in/a.tif", SOURCE)
        self.storage.zones.silver.write_bytes(PRODUCT, ANOTHERS)

    def run(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        one = Try("n", name, params, FACTS, 60)
        return tries.run(one, Care(self.storage.zones, Event(), lambda *_: None))


def told(outcome: Outcome, beginning: str) -> list[str]:
    return [
        f"{kind}: {name}: {what}"
        for kind, names in outcome.items()
        for name, what in names.items()
        if what.startswith(beginning)
    ]
