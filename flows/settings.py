"""What a worker's processes need to know. Read when a flow run starts, never at import."""

import math
import os
import resource
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, HttpUrl, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from domain.contracts.transport import TransportSettings
from flows.storage.settings import StorageSettings
from flows.tries.concurrency import TRIES_PER_RUN, TRIES_SHARED

SPARE_SECONDS = 60


class WorkerSettings(StorageSettings, TransportSettings):
    """Environment variables `CAIRN_*`."""

    model_config = SettingsConfigDict(env_prefix="CAIRN_", extra="ignore")

    services: ClassVar = ("domain_url", "storage_account_url")

    domain_url: HttpUrl = Field(description="The domain service")
    worker_token: SecretStr = Field(description="The workers' credential at the domain")
    domain_ca_file: Path | None = Field(
        default=None, description="Certificates by which the domain is known, beside the usual ones"
    )
    child_silence_seconds: float = Field(default=60.0, gt=0, description="Silence after which a child run is given up")
    outage_seconds: float = Field(
        default=3600.0, gt=0, description="How long a try waits for a database, a storage or a disk that is away"
    )
    image: str | None = Field(default=None, description="The container image this runs in; shown in the run's record")
    job_template: str | None = Field(
        default=None, description="The pool's base job template; shown in the run's record"
    )
    storage_block: str | None = Field(default=None, description="Prefect block that names the zones, kind/name")
    fan_out_task_runs: int = Field(
        default=200, ge=1, description="Prefect task runs that a fan-out makes at most: beyond, items share as many"
    )
    tries_per_run: int = Field(default=TRIES_PER_RUN, ge=1, description="Tries of one run at once in one process")
    tries_shared: int = Field(
        default=TRIES_SHARED, ge=0, description="Tries at once in one process, beside one of each of its runs"
    )
    engine: Literal["fast", "stock"] = Field(
        default="fast", description="What work goes through: our engine, or Prefect's own and its map, much slower"
    )
    shards: int = Field(
        default=4,
        ge=1,
        description="Child runs of a fan-out that declares none, on a pool whose workers start a container for each",
    )


class LoaderSettings(TransportSettings):
    """How handlers that declare a database reach it. Only workers of the light pool are told."""

    model_config = SettingsConfigDict(env_prefix="CAIRN_", extra="ignore")

    databases: ClassVar = ("database_loader_url",)

    database_loader_url: SecretStr | None = Field(
        default=None, description="PostgreSQL URL of the role cairn_loader, which fills vector tables and nothing else"
    )


class TryLimits(BaseSettings):
    """What a try of a GDAL handler may take, in variables `CAIRN_TRY_*`. Its time is the handler's timeout."""

    model_config = SettingsConfigDict(env_prefix="CAIRN_TRY_", extra="ignore")

    memory_mb: int = Field(default=8192, ge=512, description="Address space of one GDAL try")
    file_mb: int = Field(default=262_144, ge=1, description="Largest file that a GDAL try may write")
    open_files: int = Field(default=1024, ge=64, description="Files that a GDAL try may have open")
    threads: int = Field(default=512, ge=8, description="Threads that a GDAL try may have at once")
    confinement: Literal["required", "available", "off"] = Field(
        default="available",
        description="Keep GDAL tries from other files, processes and the network: always, where the kernel can, never",
    )

    @property
    def memory_here(self) -> int:
        """The bytes that this process may take: as its kernel holds it to, and where it does not, as is set."""
        allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
        return self.memory_mb * 2**20 if allowed == resource.RLIM_INFINITY else allowed

    def for_seconds(self, timeout_seconds: float) -> dict[str, int]:
        """All limits of a try. Processor time only stops a try that nobody watches: all processors, all the time."""
        cpu_seconds = math.ceil((timeout_seconds + SPARE_SECONDS) * (os.cpu_count() or 1))
        return {**self.model_dump(exclude={"confinement"}), "cpu_seconds": cpu_seconds}


class DebugSettings(BaseSettings):
    """Whom a developer's debugger may stop. What is stopped is neither confined nor watched: nowhere else."""

    model_config = SettingsConfigDict(env_prefix="CAIRN_", extra="ignore")

    debug_handler: str | None = Field(default=None, description="Handler whose tries wait for a debugger")
    debug_port: int = Field(default=5678, ge=1024, le=65535, description="Where the debugger finds them, on loopback")
    development: bool = False
    try_confinement: str = "available"

    @model_validator(mode="after")
    def _at_home(self) -> Self:
        if self.debug_handler and not (self.development and self.try_confinement == "off"):
            raise ValueError(
                "CAIRN_DEBUG_HANDLER lets a debugger into what opens strangers' files. It is for a developer's machine "
                "(CAIRN_DEVELOPMENT=true) on which tries are not confined (CAIRN_TRY_CONFINEMENT=off)."
            )
        return self


class SourceSettings(BaseSettings):
    """Where sources may be fetched from by https, in variables `CAIRN_SOURCE_*`; the domain reads the first too."""

    model_config = SettingsConfigDict(env_prefix="CAIRN_", extra="ignore")

    source_hosts: tuple[str, ...] = Field(
        default=(), description="Hosts that sources may be fetched from; none at first"
    )
    source_max_mb: int = Field(default=51_200, ge=1, description="Largest source that is fetched")
    source_seconds: float = Field(default=3000.0, gt=0, description="Longest time that fetching a source may take")
    source_ca_file: Path | None = Field(default=None, description="Certificates trusted for sources' hosts")
