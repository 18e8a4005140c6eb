"""The blocks that name the storage zones, saved where they are missing or say something else."""

from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect.blocks.core import Block

from blocks.storage import LocalZones
from deployments.rollout.report import Change, Difference

BLOCK = "cairn"


@dataclass(frozen=True)
class AzurePlace:
    """A storage account that workers reach as their managed identity. What is None stays as the block has it."""

    url: str
    container_prefix: str | None = None
    ca_file: Path | None = None


async def ensure_local(root: str) -> Change:
    """The zones in a folder."""
    return await _ensure(LocalZones(root=Path(root)), "root")


async def ensure_azure(place: AzurePlace) -> AsyncIterator[Change]:
    """The zones in an account, and the credentials block that they refer to. It holds no secret."""
    from prefect_azure.credentials import AzureBlobStorageCredentials

    from blocks.azure import PREFIX, AzureZones

    yield await _ensure(AzureBlobStorageCredentials(account_url=place.url), "account_url")
    credentials: AzureBlobStorageCredentials = await AzureBlobStorageCredentials.aload(BLOCK)
    said = {"container_prefix": place.container_prefix, "ca_file": place.ca_file}
    prefix = PREFIX if place.container_prefix is None else place.container_prefix
    zones = AzureZones(credentials=credentials, container_prefix=prefix, ca_file=place.ca_file)
    unsaid = [fact for fact, value in said.items() if value is None]
    yield await _ensure(zones, *said, unsaid=unsaid)


async def _ensure(wanted: Block, *facts: str, unsaid: Collection[str] = ()) -> Change:
    """Save the block if it is not there, or if one of these facts is another. Unsaid ones stay as they are there."""
    name = f"{wanted.get_block_type_slug()}/{BLOCK}"
    try:
        found: Any = await type(wanted).aload(BLOCK)
    except ValueError:  # Prefect's word for a block that is not there
        await wanted.asave(BLOCK)
        return Change(Difference.CREATED, "block", name)
    for fact in unsaid:
        setattr(wanted, fact, getattr(found, fact))
    different = [fact for fact in facts if getattr(found, fact) != getattr(wanted, fact)]
    if not different:
        return Change(Difference.UNCHANGED, "block", name)
    await wanted.asave(BLOCK, overwrite=True)
    return Change(Difference.CHANGED, "block", name, ", ".join(different))
