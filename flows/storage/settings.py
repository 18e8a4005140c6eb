"""The settings that say where the zones are, read when a service starts, never at import."""

from pathlib import Path
from typing import Self

from pydantic import Field, HttpUrl, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from flows.storage.zones import Zones


class StorageSettings(BaseSettings):
    """Environment variables `CAIRN_STORAGE_*`: a folder, or an account of Azure's."""

    model_config = SettingsConfigDict(env_prefix="CAIRN_", extra="ignore")

    storage_root: Path | None = Field(default=None, description="Folder of the local storage zones")
    storage_account_url: HttpUrl | None = Field(default=None, description="Azure storage account, instead of a folder")
    storage_connection_string: SecretStr | None = Field(
        default=None, description="The same by its key, where no managed identity is to be had"
    )
    storage_container_prefix: str = Field(
        default="cairn-", pattern=r"^[a-z0-9-]{0,50}$", description="What containers are called before their zone"
    )
    storage_ca_file: Path | None = Field(default=None, description="Certificates that the storage account is known by")

    @model_validator(mode="after")
    def _names_one_place(self) -> Self:
        given = (self.storage_root, self.storage_account_url, self.storage_connection_string)
        if sum(each is not None for each in given) > 1:
            raise ValueError(
                "Set one of CAIRN_STORAGE_ROOT, CAIRN_STORAGE_ACCOUNT_URL and CAIRN_STORAGE_CONNECTION_STRING."
            )
        return self

    @property
    def names_storage(self) -> bool:
        """Whether the environment says where the zones are."""
        return any((self.storage_root, self.storage_account_url, self.storage_connection_string))

    def zones(self) -> Zones:
        """The zones. Nothing is opened."""
        if self.storage_root is not None:
            return Zones.local(self.storage_root)
        if not self.names_storage:
            raise ValueError("Set CAIRN_STORAGE_ROOT to a folder, or CAIRN_STORAGE_ACCOUNT_URL to a storage account.")
        from flows.storage.account import Account
        from flows.storage.azure import azure_zones

        account = Account(
            url=str(self.storage_account_url).rstrip("/") if self.storage_account_url else None,
            connection_string=self.storage_connection_string,
            ca_file=str(self.storage_ca_file) if self.storage_ca_file else None,
        )
        return azure_zones(account, self.storage_container_prefix)
