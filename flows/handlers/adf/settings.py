"""Which Data Factory runs the pipelines. Read when an export begins, never at import."""

from ipaddress import ip_address
from urllib.parse import quote
from uuid import UUID

from pydantic import Field, HttpUrl, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class AdfSettings(BaseSettings):
    """Environment variables `CAIRN_ADF_*`. Who we are is Azure's to know: a managed identity, or its own variables."""

    model_config = SettingsConfigDict(env_prefix="CAIRN_ADF_", extra="ignore")

    subscription_id: UUID = Field(description="The Azure subscription of the Data Factory")
    resource_group: str = Field(pattern=r"^[-\w._()]{1,90}$", description="Its resource group")
    factory: str = Field(
        pattern=r"^[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*$", min_length=3, max_length=63, description="Its name"
    )
    client_id: str | None = Field(
        default=None, description="Of a user-assigned managed identity; else the system's own"
    )
    endpoint: HttpUrl = Field(
        default=HttpUrl("https://management.azure.com"), description="Azure Resource Manager; another in other clouds"
    )
    timeout_seconds: float = Field(default=30, gt=0, le=300, description="Longest wait for one answer")

    @field_validator("endpoint")
    @classmethod
    def _tokens_travel_encrypted(cls, endpoint: HttpUrl) -> HttpUrl:
        if endpoint.scheme != "https" and not _is_loopback(endpoint.host or ""):
            raise ValueError("CAIRN_ADF_ENDPOINT must begin with https://: a token is sent there")
        return endpoint

    @property
    def factory_url(self) -> str:
        """Where everything about the factory lies."""
        group = quote(self.resource_group, safe="()")
        return (
            f"{str(self.endpoint).rstrip('/')}/subscriptions/{self.subscription_id}/resourceGroups/{group}"
            f"/providers/Microsoft.DataFactory/factories/{self.factory}"
        )

    @property
    def scope(self) -> str:
        """Return the scope that a token must have."""
        return f"{str(self.endpoint).rstrip('/')}/.default"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
