"""What lies around a hostile child: where its zones are, what of it is its own, and how it is let loose."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any

from flows.storage import Zones
from flows.tries import one_try
from flows.tries.one_try import Care, Try
from tests.support.hostile_child import handler
from tests.support.hostile_child.attempts import Aims
from tests.support.run_facts import FIRST_ATTEMPT

SOURCE, ANOTHERS = b"the try's source", b"another's product"
PRODUCT = "assets/other/0-r1/a1/x"
Outcome = dict[str, dict[str, str]]


@dataclass
class Storage:
    """Where the zones lie. The paths are of files that hold what zones do, whatever zones are made of."""

    zones: Zones
    source: Path
    another: Path
    product: Path


def filled(zones: Zones, root: Path) -> Storage:
    """Zones with what is the try's and what is not; their folder, or one that somebody else keeps beside an account."""
    for made in (zones, Zones.local(root)):
        made.bronze.write_bytes("in/a.tif", SOURCE)
        made.bronze.write_bytes("in/other.tif", b"another's upload")
        made.silver.write_bytes(PRODUCT, ANOTHERS)
        made.external.write_bytes("published", b"published")
    bronze, silver = root / "bronze/in", root / "silver"
    return Storage(zones, bronze / "a.tif", bronze / "other.tif", silver / PRODUCT)


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
        zones, paths = self.storage.zones, self.storage
        sources = (zones.bronze.read_bytes("in/a.tif"), paths.source.read_bytes())
        products = (zones.silver.read_bytes(PRODUCT), paths.product.read_bytes())
        return set(sources) == {SOURCE} and set(products) == {ANOTHERS}

    def mend(self) -> None:
        """After holes through which it was changed."""
        self.storage.zones.bronze.write_bytes("in/a.tif", SOURCE)
        self.storage.zones.silver.write_bytes(PRODUCT, ANOTHERS)
        self.storage.source.write_bytes(SOURCE)
        self.storage.product.write_bytes(ANOTHERS)

    def run(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        one = Try("n", name, params, FIRST_ATTEMPT, 60)
        return one_try.run_try(one, Care(self.storage.zones, Event(), lambda *_: None))


def told(outcome: Outcome, beginning: str) -> list[str]:
    return [
        f"{kind}: {name}: {what}"
        for kind, names in outcome.items()
        for name, what in names.items()
        if what.startswith(beginning)
    ]
