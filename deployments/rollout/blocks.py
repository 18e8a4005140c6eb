"""The blocks that name the storage zones, saved where they are missing or say something else."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect.blocks.core import Block

from blocks.storage import LocalZones
from deployments.rollout.report import Change, Difference

BLOCK = "cairn"


@dataclass(frozen=True)
class AzurePlace:
    """A storage account that workers reach as their managed identity."""

    url: str
    container_prefix: str
    ca_file: Path | None = None


async def ensure_local(root: str) -> Change:
    """The zones in a folder."""
    return await _ensure(LocalZones(root=Path(root)), "root")


async def ensure_azure(place: AzurePlace) -> AsyncIterator[Change]:
    """The zones in an account, and the credentials block that they refer to. It holds no secret."""
    from prefect_azure.credentials import AzureBlobStorageCredentials

    from blocks.azure import AzureZones

    yield await _ensure(AzureBlobStorageCredentials(account_url=place.url), "account_url")
    credentials: AzureBlobStorageCredentials = await AzureBlobStorageCredentials.aload(BLOCK)
    zones = AzureZones(credentials=credentials, container_prefix=place.container_prefix, ca_file=place.ca_file)
    yield await _ensure(zones, "container_prefix", "ca_file")


async def _ensure(wanted: Block, *facts: str) -> Change:
    """Save the block if it is not there, or if one of these facts is another."""
    name = f"{wanted.get_block_type_slug()}/{BLOCK}"
    try:
        found: Any = await type(wanted).aload(BLOCK)
    except ValueError:  # Prefect's word for a block that is not there
        await wanted.asave(BLOCK)
        return Change(Difference.CREATED, "block", name)
    different = [fact for fact in facts if getattr(found, fact) != getattr(wanted, fact)]
    if not different:
        return Change(Difference.UNCHANGED, "block", name)
    await wanted.asave(BLOCK, overwrite=True)
    return Change(Difference.CHANGED, "block", name, ", ".join(different))
