"""Connects to an Azure storage account with our identity. The only module that makes its clients.

Azure's packages are imported when a client is first wanted, and a client is kept for the life of the process: finding
out who we are takes longer than most of what is asked then.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pydantic import SecretStr

if TYPE_CHECKING:
    from azure.storage.blob import BlobServiceClient

BLOCK_BYTES: Final = 8 * 1024 * 1024
CHUNK_BYTES: Final = 4 * 1024 * 1024
# Waits of 0.5, 1, 2 and 4 s, and a little by chance: what takes longer is for the node's own retries.
TRANSPORT: Final = {
    "retry_total": 4,
    "initial_backoff": 0.5,
    "increment_base": 2,
    "connection_timeout": 10,
    "read_timeout": 60,
    "max_single_put_size": BLOCK_BYTES,
    "max_block_size": BLOCK_BYTES,
    "max_single_get_size": CHUNK_BYTES,
    "max_chunk_get_size": CHUNK_BYTES,
}


@dataclass(frozen=True)
class Principal:
    """A service principal, where the machine has no identity of its own."""

    tenant_id: str
    client_id: str
    client_secret: SecretStr


@dataclass(frozen=True)
class Account:
    """How to reach the account. Without principal and connection string, as the managed identity of the machine."""

    url: str | None = None
    connection_string: SecretStr | None = field(default=None, repr=False)
    principal: Principal | None = None
    ca_file: str | None = None

    @property
    def client(self) -> "BlobServiceClient":
        """The account's client; threads may share it."""
        return _client(self)

    @property
    def name(self) -> str:
        """What signatures call the account: the first label of its host, or the path where hosts have no names."""
        parts = urlsplit(str(self.client.url))
        return parts.path.strip("/") or parts.netloc.partition(".")[0]

    @property
    def key(self) -> str | None:
        """The account's own key, where a connection string holds it."""
        if self.connection_string is None:
            return None
        pairs = dict(part.partition("=")[::2] for part in self.connection_string.get_secret_value().split(";") if part)
        return pairs.get("AccountKey")


@cache
def _client(account: Account) -> "BlobServiceClient":
    from azure.storage.blob import BlobServiceClient

    options: dict[str, Any] = {**TRANSPORT}
    if account.ca_file:
        options["connection_verify"] = account.ca_file
    if account.connection_string is not None:
        return BlobServiceClient.from_connection_string(account.connection_string.get_secret_value(), **options)
    if account.url is None:
        raise ValueError("A storage account needs a URL, or a connection string.")
    return BlobServiceClient(account.url, credential=_credential(account.principal), **options)


def _credential(principal: Principal | None) -> Any:
    from azure.identity import ClientSecretCredential, DefaultAzureCredential

    if principal is None:
        return DefaultAzureCredential()
    secret = principal.client_secret.get_secret_value()
    return ClientSecretCredential(principal.tenant_id, principal.client_id, secret)
