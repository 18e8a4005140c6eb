"""What a worker's processes need to know. Read when a flow run starts, never at import."""

from pathlib import Path

from pydantic import Field, HttpUrl, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class WorkerSettings(BaseSettings):
    """Environment variables `CAIRN_*`."""

    model_config = SettingsConfigDict(env_prefix="CAIRN_", extra="ignore")

    domain_url: HttpUrl = Field(description="The domain service")
    worker_token: SecretStr = Field(description="The workers' credential at the domain")
    storage_root: Path | None = Field(default=None, description="Folder of the local storage zones")
    child_silence_seconds: float = Field(default=60.0, gt=0, description="Silence after which a child run is given up")
    storage_block: str | None = Field(default=None, description="Prefect block that names the zones, kind/name")
