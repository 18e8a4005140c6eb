"""The four zones of a platform."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flows.storage.local import LocalStore
from flows.storage.protocol import StampedStore, Store

ZONES: Final = ("bronze", "silver", "external", "runs")


@dataclass(frozen=True)
class Zones:
    """The places data lives in: as received, as processed, as exported, and what runs keep for themselves."""

    bronze: Store
    silver: Store
    external: Store
    runs: Store

    @property
    def reader_environment(self) -> dict[str, str]:
        """What GDAL must find in its environment to open what these zones give."""
        file: str | None = getattr(self.silver, "ca_file", None)
        return {"GDAL_CURL_CA_BUNDLE": file} if file else {}

    def of_service(self, zone: str) -> StampedStore:
        """The zone of this name, as services have it: who is given a try's zones has no such one."""
        store = getattr(self, zone)
        if not isinstance(store, StampedStore):
            raise TypeError(f"The zone {zone} is a try's, which tells neither what lies in it nor when it was written.")
        return store

    @classmethod
    def local(cls, root: Path) -> "Zones":
        """All zones as folders below one root."""
        return cls(*(LocalStore(root / zone) for zone in ZONES))
