"""The domain service's settings. Read once at start; nonsense is refused there."""

from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from pydantic import Field, HttpUrl, IPvAnyNetwork, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from domain.console.settings import ConsoleSettings
from domain.rules.addresses import AddressPolicy
from domain.rules.audit import Chain, SealKey
from domain.rules.backoff import FIRST_SECONDS
from domain.rules.database_timeouts import STATEMENT_SECONDS
from domain.rules.leftovers import Retention as LeftoverPatience
from domain.rules.reconcile import Patience
from domain.rules.sources import SourcePolicy
from domain.shared.database_address import DatabaseSettings
from domain.shared.tokens import TokenSettings
from flows.storage.settings import StorageSettings

HOW_TO_MAKE_KEYS = (
    "It is a JSON list; a key is made by: "
    'python -c "import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())"'
)
REPOSITORY = Path(__file__).resolve().parent.parent


class DomainSettings(TokenSettings, StorageSettings, ConsoleSettings, DatabaseSettings):
    """Environment variables `CAIRN_*`."""

    model_config = SettingsConfigDict(env_prefix="CAIRN_", extra="ignore")

    services: ClassVar = ("public_url", "storage_account_url", "jwt_jwks_url", "oidc_issuer")
    databases: ClassVar = ("database_url", "admin_url", "external_database_url")

    database_url: SecretStr = Field(description="PostgreSQL as role cairn_app: postgresql://user:password@host/cairn")
    public_url: HttpUrl = Field(description="Where partners reach the gateway; written into catalogue items")
    workflows_dir: Path = Field(default=REPOSITORY / "workflows", description="Folder of the workflow definitions")
    relay_enabled: bool = Field(default=True, description="Dispatch runs from this process")
    relay_poll_seconds: float = Field(default=2.0, gt=0, description="Longest wait where a notification got lost")
    relay_lease_seconds: float = Field(
        default=60.0, gt=0, description="After which another relay sends what one did not"
    )
    relay_retry_seconds: float = Field(
        default=5.0, gt=0, description="Wait before sending again what Prefect did not take"
    )
    reconcile_seconds: float = Field(default=15.0, gt=0, description="Time between two sweeps for lost attempts")
    heartbeat_seconds: float = Field(default=10.0, gt=0, description="How often a quiet flow run reports")
    attempt_lost_seconds: float = Field(
        default=90.0, gt=0, description="Silence after which an attempt is fenced; what nobody could hear is none"
    )
    stop_seconds: float = Field(
        default=8.0, gt=0, description="How long a fenced flow run may take to stop before Prefect is told to stop it"
    )
    start_seconds: float = Field(
        default=120.0,
        gt=0,
        description="How long a worker may take to begin a flow run, beside what its pool takes to begin all that wait",
    )
    beacon_silence_seconds: float = Field(
        default=25.0, gt=0, description="Silence of all its workers after which nobody serves a pool"
    )
    routing_seconds: float = Field(default=5.0, gt=0, description="Time between two looks for runs that nobody serves")
    unroutable_seconds: float = Field(
        default=600.0, gt=0, description="How long a run waits for a pool that nobody serves before it fails"
    )
    audit_seal_seconds: float = Field(default=2.0, gt=0, description="Time between two looks for acts to seal")
    approval_end_seconds: float = Field(
        default=5.0, gt=0, description="Time between two looks for approvals that have ended"
    )
    kept_after_success_seconds: float = Field(
        default=3600.0, ge=0, description="How long files stay that a completed request's attempts left over"
    )
    kept_after_failure_seconds: float = Field(
        default=7 * 86_400.0,
        ge=0,
        description="How long all stays that a failed or cancelled request made, so that it may be rerun from there",
    )
    kept_node_history_seconds: float = Field(
        default=90 * 86_400.0, gt=0, description="How long every change of state of every node stays"
    )
    collect_seconds: float = Field(default=10.0, gt=0, description="Time between two looks for what is left over")
    file_check_seconds: float = Field(
        default=8.0,
        gt=0,
        description="How long an approval waits for its files to be read and compared, before it is to be asked again",
    )
    in_flight_per_pool: int = Field(
        default=200,
        ge=1,
        description="Attempts a pool may have in flight, unless operators set another limit or workers do less at once",
    )
    open_requests_per_platform: int = Field(
        default=10_000, ge=1, description="Requests a platform may have open, unless operators set another limit"
    )
    submission_wait_seconds: float = Field(
        default=5.0, gt=0, description="How long a submission waits for another about the same that is being accepted"
    )
    quota_cache_seconds: float = Field(default=1.0, ge=0, description="How long a count of open requests is trusted")
    max_attempts: int = Field(
        default=3, ge=1, description="Attempts that a run may lose under the same work before it is parked as failed"
    )
    attempt_pause_seconds: float = Field(
        default=FIRST_SECONDS, ge=0, description="Rest before a run's second attempt; before the third, four times that"
    )
    max_body_bytes: int = Field(default=8_000_000, ge=1024, description="Largest request body that is read")
    max_report_bytes: int = Field(
        default=64_000_000,
        ge=1024,
        description="Largest body of what flow runs report: outputs, up to 50,000 artifacts",
    )
    bodies_mb: int = Field(default=256, ge=8, description="What the bodies of all requests at once may take")
    pool_size: int = Field(default=10, ge=1, le=200, description="Largest number of database connections")
    statement_seconds: float = Field(
        default=STATEMENT_SECONDS, gt=0, description="Longest time for one statement, waits for locks included"
    )
    admin_url: SecretStr | None = Field(default=None, description="PostgreSQL as administrator, for migrations by API")
    export_workflow: str = Field(default="adf_export", description="Workflow that copies what is approved and public")
    external_database_url: SecretStr | None = Field(default=None, description="Where published layers are copied to")
    external_look_seconds: float = Field(
        default=5.0, gt=0, description="Time between two looks for words that may stand in it no more"
    )
    secrets_keys: tuple[SecretStr, ...] = Field(
        default=(), description="Fernet keys that seal what is read again, newest first; none: in development only"
    )
    audit_keys: tuple[SecretStr, ...] = Field(
        default=(), description="Keys of the audit's seals, newest first; none: in development only"
    )
    audit_seals_without_key: int = Field(
        default=0, ge=0, description="How many seals were made before there was a key; later ones without are a fault"
    )
    callbacks_enabled: bool = Field(default=True, description="Deliver callbacks from this process")
    callback_delays_seconds: tuple[float, ...] = Field(
        default=(5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400),
        description="Waits between the tries of a callback: ten tries in 75 hours",
    )
    callback_timeout_seconds: float = Field(default=20.0, gt=0, le=60, description="Longest wait for a receiver")
    callback_poll_seconds: float = Field(default=1.0, gt=0, description="Time between two looks for due callbacks")
    callback_concurrency: int = Field(default=64, ge=1, le=1000, description="Callbacks under way in this process")
    callback_ports: tuple[int, ...] = Field(default=(443, 8443), description="Ports that callbacks may go to")
    callback_networks: tuple[IPvAnyNetwork, ...] = Field(
        default=(), description="Development only: private networks that callbacks may reach, by any port and by http"
    )
    callback_secret_overlap_seconds: float = Field(
        default=86_400, ge=0, description="How long the secret before goes on signing after a rotation"
    )
    key_overlap_seconds: float = Field(
        default=86_400, ge=0, description="How long the key before works on after a rotation"
    )
    source_hosts: tuple[str, ...] = Field(
        default=(), description="Hosts that sources may be fetched from; none at first"
    )
    callback_ca_file: Path | None = Field(default=None, description="Certificates trusted beside the system's")

    @model_validator(mode="after")
    def _development_only(self) -> "DomainSettings":
        if self.callback_networks and not self.development:
            raise ValueError("CAIRN_CALLBACK_NETWORKS opens private networks to partners: only with CAIRN_DEVELOPMENT")
        return self

    @model_validator(mode="after")
    def _keys_are_kept_outside_the_database(self) -> "DomainSettings":
        if not self.development:
            if not self.secrets_keys:
                raise ValueError(
                    "Set CAIRN_SECRETS_KEYS: without a key callback secrets would be stored readable, which only "
                    f"CAIRN_DEVELOPMENT allows. {HOW_TO_MAKE_KEYS}"
                )
            if not self.audit_keys:
                raise ValueError(
                    "Set CAIRN_AUDIT_KEYS: without a key whoever writes to the database can remake the audit's chain, "
                    f"which only CAIRN_DEVELOPMENT allows. {HOW_TO_MAKE_KEYS}"
                )
        return self

    def audit_chain(self) -> Chain:
        """Return how the audit is sealed and verified. Development may do without a key."""
        keys = [SealKey.of(key.get_secret_value()) for key in self.audit_keys]
        return Chain(tuple(keys), None if self.development else self.audit_seals_without_key)

    def callback_policy(self) -> AddressPolicy:
        """Return where callbacks may be sent."""
        if not self.callback_networks:
            return AddressPolicy(ports=frozenset(self.callback_ports))
        return AddressPolicy(https_only=False, ports=None, networks=self.callback_networks)

    def source_policy(self) -> SourcePolicy:
        """Return which sources submissions may name."""
        return SourcePolicy(hosts=frozenset(self.source_hosts))

    def patience(self) -> Patience:
        """Return for how long the reconciler waits in each state."""
        lost = self.attempt_lost_seconds
        return Patience(
            start=self.start_seconds,
            heartbeat=self.heartbeat_seconds,
            suspect=lost * 2 / 3,
            lost=lost,
            stop_fenced=self.stop_seconds,
        )

    def leftovers(self) -> LeftoverPatience:
        """Return for how long ended requests keep what they made."""
        return LeftoverPatience(self.kept_after_success_seconds, self.kept_after_failure_seconds)

    @field_validator("database_url")
    @classmethod
    def _is_postgresql(cls, url: SecretStr) -> SecretStr:
        if not url.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("The database URL must start with postgresql://")
        return url


def sqlalchemy_url(url: str) -> str:
    """Return the address with the psycopg 3 driver named."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.partition("+")[0] not in {"postgresql", "postgres"}:
        raise ValueError("The database URL must start with postgresql://")
    return f"postgresql+psycopg://{rest}"


@lru_cache
def settings() -> DomainSettings:
    """The settings of this process."""
    return DomainSettings()
