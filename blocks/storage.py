"""Storage as Prefect blocks: operators say in Prefect's UI where the zones are; the work is done in `flows.storage`.

The Azure kind is in a module of its own, because what it stands on takes a second to import.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

from prefect.blocks.core import Block
from pydantic import Field

from flows.storage import Zones

KINDS: Final = {"local-zones": ("blocks.storage", "LocalZones"), "azure-zones": ("blocks.azure", "AzureZones")}


class Unannounced(Block):
    """A block that is loaded by every flow run, which is no event worth telling each time."""

    def _event_method_called_resources(self) -> None:
        return None


class LocalZones(Unannounced):
    """All zones as folders below one root, on a disk that every worker shares."""

    _block_type_name: ClassVar[str] = "Local zones"
    _block_type_slug: ClassVar[str] = "local-zones"

    root: Path = Field(description="Folder that holds bronze, silver, external and runs")

    def zones(self) -> Zones:
        return Zones.local(self.root)


async def load_zones(name: str) -> Zones:
    """The zones of a block named `kind/name`."""
    kind, _, block_name = name.partition("/")
    if kind not in KINDS:
        raise ValueError(f"{name!r} is no storage block. Known kinds: {', '.join(KINDS)}.")
    module, block = KINDS[kind]
    loaded: Any = await getattr(import_module(module), block).aload(block_name)
    zones: Zones = loaded.zones()
    return zones
