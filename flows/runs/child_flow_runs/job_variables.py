"""What a child run's nodes need, as the job variables of its pool's kind of worker. Pure: knows no Prefect."""

import math
from collections.abc import Mapping
from typing import Any

from flows.compiler.plan import Resources

BILLION = 1_000_000_000
Variables = dict[str, Any]


class NeedsUnmet(ValueError):
    """Workers of this kind cannot be asked for that."""


def job_variables(kind: str, template: Mapping[str, Any], needs: Resources) -> Variables:
    """Return what to say to workers of this kind. `template` is the pool's own base job template."""
    memory_mb = needs.memory_mb if isinstance(needs.memory_mb, int | float) else None  # else nobody could tell yet
    if kind == "kubernetes":
        return _kubernetes(memory_mb, needs)
    if kind == "docker":
        return _docker(memory_mb, needs, template)
    if kind == "azure-container-instance":
        return _azure(memory_mb, needs)
    named = {"memory_mb": memory_mb, "cpus": needs.cpus, "gpu": needs.gpu}
    return {name: value for name, value in named.items() if value}


def _kubernetes(memory_mb: float | None, needs: Resources) -> Variables:
    """Requests and limits are the same: a try that takes more than it said is what a limit is for."""
    said: Variables = {}
    if memory_mb:
        said |= dict.fromkeys(("memory_request", "memory_limit"), f"{math.ceil(memory_mb)}Mi")
    if needs.cpus:
        said |= dict.fromkeys(("cpu_request", "cpu_limit"), f"{math.ceil(needs.cpus * 1000)}m")
    return said | ({"gpu": needs.gpu} if needs.gpu else {})


def _docker(memory_mb: float | None, needs: Resources, template: Mapping[str, Any]) -> Variables:
    said: Variables = {"mem_limit": f"{math.ceil(memory_mb)}m"} if memory_mb else {}
    more: Variables = {"nano_cpus": round(needs.cpus * BILLION)} if needs.cpus else {}
    if needs.gpu:
        more["device_requests"] = [{"Driver": "nvidia", "Count": needs.gpu, "Capabilities": [["gpu"]]}]
    if more:  # one variable holds all that a container is created with: what the pool says there stays
        field = template.get("variables", {}).get("properties", {}).get("container_create_kwargs", {})
        said["container_create_kwargs"] = (field.get("default") or {}) | more
    return said


def _azure(memory_mb: float | None, needs: Resources) -> Variables:
    """Azure counts memory in tenths of a gigabyte, and processors in whole ones."""
    if needs.gpu:
        raise NeedsUnmet("Container instances have no GPUs. Route the node to another pool.")
    said: Variables = {"memory": math.ceil(memory_mb / 1000 * 10) / 10} if memory_mb else {}
    return said | ({"cpu": float(math.ceil(needs.cpus))} if needs.cpus else {})
