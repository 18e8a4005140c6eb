"""How large this host is: what its kernel, or the container it is in, lets a worker use, unless settings say less."""

import os
from contextlib import suppress
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from deployments.workers.admission import HostSize

MEGABYTE = 2**20
CGROUP = Path("/sys/fs/cgroup")
DEVICES = Path("/dev")


class HostSettings(BaseSettings):
    """What a worker may use of its host, in variables `CAIRN_HOST_*`."""

    model_config = SettingsConfigDict(env_prefix="CAIRN_HOST_", extra="ignore")

    memory_mb: float | None = Field(default=None, gt=0, description="Memory that a worker's runs may use together")
    cpus: float | None = Field(default=None, gt=0, description="Processors that a worker's runs may use together")
    gpus: int | None = Field(default=None, ge=0, description="GPUs that a worker's runs may use together")


def size_here() -> HostSize:
    """This host's size."""
    told = HostSettings()
    return HostSize(
        told.memory_mb or min(_memory_of_machine(), _memory_of_container()),
        told.cpus or min(len(os.sched_getaffinity(0)), _cpus_of_container()),
        len(list(DEVICES.glob("nvidia[0-9]*"))) if told.gpus is None else told.gpus,
    )


def _memory_of_machine() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / MEGABYTE


def _memory_of_container() -> float:
    with suppress(OSError, ValueError):
        return int((CGROUP / "memory.max").read_text()) / MEGABYTE  # `max` is no number
    return float("inf")


def _cpus_of_container() -> float:
    with suppress(OSError, ValueError):
        quota, period = (CGROUP / "cpu.max").read_text().split()
        return int(quota) / int(period)
    return float("inf")
