"""What the serving process is told at start."""

from pydantic import Field, PostgresDsn, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from domain.tokens import TokenSettings
from flows.storage.settings import StorageSettings


class ServingSettings(TokenSettings, StorageSettings):
    """Read from variables with the prefix CAIRN_."""

    model_config = SettingsConfigDict(env_prefix="CAIRN_", extra="ignore")

    database_serving_url: SecretStr = Field(description="PostgreSQL URL of the role cairn_serving, which only reads")
    serving_pool_size: int = Field(default=4, ge=1, le=100, description="Connections of each of the three pools")

    @field_validator("database_serving_url")
    @classmethod
    def _names_a_server(cls, url: SecretStr) -> SecretStr:
        PostgresDsn(url.get_secret_value())
        return url
