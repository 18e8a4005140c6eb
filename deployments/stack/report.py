"""How a running stack is, asked for now: what `cairn status --json` says."""

from typing import Any

from deployments.stack import health
from deployments.stack.services import POOLS
from deployments.stack.state import StackState
from domain.shared.together import together


async def report(state: StackState, facts: dict[str, Any]) -> dict[str, Any]:
    """Every service with its address, process and health, and the workers by pool."""
    found = facts["services"]
    auth = f"cairn:{state.secrets['prefect_auth']}"
    api = f"{found['prefect']['url']}/api"
    web = ("gateway", "domain", "serving")
    checks = [health.http_ok(f"{found[name]['url']}/readyz") for name in web]
    checks.append(health.http_ok(f"{api}/health", basic=auth))
    checks.append(health.redis_answers(int(facts["ports"]["redis"]), state.secrets["redis"]))
    checks += [health.worker_online(api, pool, basic=auth) for pool in POOLS]
    answers = await together(*checks)
    healthy = dict(zip([*web, "prefect", "redis", *(f"worker-{pool}" for pool in POOLS)], answers, strict=True))
    # Whoever is ready has just asked PostgreSQL: three services that are cannot be without it.
    healthy["postgres"] = any(answers[: len(web)])
    services = {
        name: {"url": service["url"], "healthy": healthy[name], "log": service["log"], **_condition(service)}
        for name, service in found.items()
        if name in healthy and not name.startswith("worker-")
    }
    workers = [
        {
            "name": f"worker-{pool}",
            "pool": pool,
            "healthy": healthy[f"worker-{pool}"],
            "log": found[f"worker-{pool}"]["log"],
            **_condition(found[f"worker-{pool}"]),
        }
        for pool in POOLS
    ]
    return {"services": services, "workers": workers, "ready_seconds": facts["ready_seconds"]}


def _condition(service: dict[str, Any]) -> dict[str, Any]:
    """Its process, how often that had to be started again, and why it last had to."""
    return {name: service.get(name) for name in ("pid", "state", "restarts", "reason", "reason_at")}
