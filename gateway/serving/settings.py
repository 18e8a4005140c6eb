"""The settings of the serving process, read at its start."""

from typing import ClassVar

from pydantic import Field, HttpUrl, PostgresDsn, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from domain.shared.database_address import DatabaseSettings
from domain.shared.tokens import TokenSettings
from flows.storage.settings import StorageSettings


class ServingSettings(TokenSettings, StorageSettings, DatabaseSettings):
    """Read from variables with the prefix CAIRN_."""

    model_config = SettingsConfigDict(env_prefix="CAIRN_", extra="ignore")

    services: ClassVar = ("public_url", "storage_account_url", "jwt_jwks_url")
    databases: ClassVar = ("database_serving_url",)

    public_url: HttpUrl | None = Field(
        default=None, description="Where the world reaches the gateway: links begin so. None: as the caller asked"
    )
    database_serving_url: SecretStr = Field(description="PostgreSQL URL of the role cairn_serving, which only reads")
    serving_pool_size: int = Field(default=4, ge=1, le=100, description="Connections of each of the three pools")

    serving_memory_seconds: float = Field(
        default=1.0, ge=0, le=1.5, description="How long an answer of the database is remembered; 0: not at all"
    )
    serving_memory_entries: int = Field(default=10_000, ge=1, description="How many of them")
    serving_open_files: int = Field(default=64, ge=0, description="Rasters kept open for the next reader")

    serving_request_mb: int = Field(default=384, ge=32, description="What the pixels of one request may take")
    serving_pixels_mb: int = Field(default=1024, ge=32, description="What those of all requests at once may take")
    serving_patience_seconds: float = Field(default=10.0, ge=0, description="How long a request waits for its share")

    serving_drawing_processes: int = Field(
        default=1, ge=1, le=64, description="Processes that draw heavy pictures, one picture each at a time"
    )
    serving_drawing_niceness: int = Field(
        default=10, ge=0, le=19, description="How far they let everybody else go first: 0 not at all, 19 all the way"
    )
    serving_drawing_seconds: float = Field(default=15.0, gt=0, description="How long they may take for a picture")
    serving_requests_at_a_time: int = Field(
        default=4, ge=1, description="Requests of one reader that read pixels at a time; the rest waits its turn"
    )
    serving_answers_mb: int = Field(
        default=512, ge=32, description="What large answers that are still being sent may take; of one reader, half"
    )
    serving_answer_mb_per_second: float = Field(
        default=32.0, gt=0, description="How fast large answers are sent to one reader, when the first 4 MB are"
    )

    link_seconds: int = Field(default=300, ge=10, le=3600, description="How long a signed download link is good")
    link_keys: tuple[SecretStr, ...] = Field(
        default=(), description="Fernet keys that sign download links, newest first; several processes share them"
    )

    @field_validator("database_serving_url")
    @classmethod
    def _names_a_server(cls, url: SecretStr) -> SecretStr:
        PostgresDsn(url.get_secret_value())
        return url
