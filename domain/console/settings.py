"""How people get into the console, and where it leads beside its own pages."""

from typing import Self

from pydantic import Field, HttpUrl, SecretStr, model_validator
from pydantic_settings import BaseSettings


class ConsoleSettings(BaseSettings):
    """How people sign in: by a provider of identities, as local users, or both."""

    oidc_issuer: str | None = Field(default=None, description="OpenID Connect provider that people sign in at")
    oidc_client_id: str | None = Field(default=None, description="What the console is called there")
    oidc_client_secret: SecretStr | None = Field(default=None, description="Its secret there, if it has one")
    oidc_scope: str = Field(default="openid", description="What the console asks the provider for")
    console_local_users: bool = Field(
        default=False, description="Staff may sign in with their client's id and key; always so in development"
    )
    console_session_seconds: float = Field(default=28_800.0, gt=0, description="After which people sign in again")
    prefect_ui_url: HttpUrl | None = Field(default=None, description="Where the console's links to Prefect lead")

    @model_validator(mode="after")
    def _provider_and_client(self) -> Self:
        if (self.oidc_issuer is None) != (self.oidc_client_id is None):
            raise ValueError("Set both CAIRN_OIDC_ISSUER and CAIRN_OIDC_CLIENT_ID, or neither of them")
        return self
