"""Checks the services that run, asking them now."""

from collections.abc import Mapping
from typing import Any

from deployments.doctor.finding import Finding, ok, warning, wrong


def stack(facts: Mapping[str, Any] | None) -> Finding:
    """What the stack says of itself, in stack.json."""
    if facts is None:
        return ok("stack", "none is running here; `cairn up --detach` starts one")
    if facts["phase"] == "ready":
        return ok("stack", f"ready after {facts['ready_seconds']} s")
    if failure := facts.get("failure"):
        return wrong("stack", str(failure["message"]), f"See {failure['log']}.")
    return warning("stack", f"it is {facts['phase']}", "Wait for it, or look at `cairn status`.")


def services(report: Mapping[str, Any], logs: str) -> list[Finding]:
    """The health of each, as `cairn status` tells it."""
    named = {**report["services"], **{worker["name"]: worker for worker in report["workers"]}}
    return [
        ok(name, "healthy")
        if service["healthy"]
        else wrong(name, _why(service), f"See {service.get('log') or f'{logs}/{name}.log'}.")
        for name, service in named.items()
    ]


def held(report: Mapping[str, Any]) -> list[Finding]:
    """Pools and queues that somebody has paused in Prefect, or given a limit of 0."""
    return [
        warning(f"pool {place}" if "/" not in place else f"queue {place}", told, _release(place, told))
        for place, told in report.get("held", {}).items()
    ]


def _release(place: str, told: str) -> str:
    """How to take a hold back."""
    pool, _, queue = place.partition("/")
    if "limit" in told:
        return f"Give it another: `cairn deploy --limit {place}=none`."
    command = f"prefect work-queue resume {queue} --pool {pool}" if queue else f"prefect work-pool resume {pool}"
    return f"What waits there waits for as long as that lasts. To go on: `{command}`, or Prefect's page of it."


def _why(service: Mapping[str, Any]) -> str:
    """Say that the service does not answer, and what last kept it from it."""
    reason = service.get("reason")
    return (
        f"does not answer as it should; at {service['reason_at']} it {reason}"
        if reason
        else "does not answer as it should"
    )
