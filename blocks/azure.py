"""The zones as containers of an Azure storage account, known by prefect-azure's credentials."""

from pathlib import Path
from typing import Any, ClassVar

from prefect_azure.credentials import AzureBlobStorageCredentials
from pydantic import Field

from blocks.storage import Unannounced
from flows.storage import Zones
from flows.storage.account import Account, Principal
from flows.storage.azure import azure_zones

PREFIX = "cairn-"


class AzureZones(Unannounced):
    """All zones as containers of one account. With an account URL alone, workers use their managed identity."""

    _block_type_name: ClassVar[str] = "Azure zones"
    _block_type_slug: ClassVar[str] = "azure-zones"

    credentials: AzureBlobStorageCredentials = Field(description="The account, and who we are there")
    container_prefix: str = Field(
        default=PREFIX, pattern=r"^[a-z0-9-]{0,50}$", description="What containers are called before their zone"
    )
    ca_file: Path | None = Field(default=None, description="Certificates that the account is known by")

    def zones(self) -> Zones:
        return azure_zones(self._account(), self.container_prefix)

    def _account(self) -> Account:
        known: Any = self.credentials
        principal = None
        if known.client_id is not None:
            principal = Principal(known.tenant_id, known.client_id, known.client_secret)
        return Account(
            url=known.account_url.rstrip("/") if known.account_url else None,
            connection_string=known.connection_string,
            principal=principal,
            ca_file=str(self.ca_file) if self.ca_file else None,
        )
