"""Storage as Prefect blocks: operators say in Prefect's UI where the zones are; the work is done in `flows.storage`."""

from pathlib import Path
from typing import ClassVar

from prefect.blocks.core import Block
from pydantic import Field

from flows.storage import Zones


class LocalZones(Block):
    """All zones as folders below one root, on a disk that every worker shares."""

    _block_type_name: ClassVar[str] = "Local zones"
    _block_type_slug: ClassVar[str] = "local-zones"

    root: Path = Field(description="Folder that holds bronze, silver, external and runs")

    def zones(self) -> Zones:
        return Zones.local(self.root)


async def load_zones(name: str) -> Zones:
    """The zones of a block named `kind/name`."""
    kind, _, _ = name.partition("/")
    if kind != LocalZones.get_block_type_slug():
        raise ValueError(f"{name!r} is no storage block. Known kinds: {LocalZones.get_block_type_slug()}.")
    block: LocalZones = await LocalZones.aload(name.partition("/")[2])
    return block.zones()
