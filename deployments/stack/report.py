"""Reports how a running stack is, asked now: what `cairn status --json` says."""

from typing import Any
from urllib.parse import urlsplit

from deployments.stack import health
from deployments.stack.state import StackState
from domain.rules.holds import in_words
from domain.shared.together import together
from flows.pools import POOLS


async def report(state: StackState, facts: dict[str, Any]) -> dict[str, Any]:
    """Every service with its address, process and health, and the workers by pool."""
    found = facts["services"]
    auth = f"cairn:{state.secrets['prefect_auth']}"
    api = f"{found['prefect']['url']}/api"
    web = ("gateway", "domain", "serving")
    checks = [health.http_ok(f"{found[name]['url']}/readyz") for name in web]
    checks.append(health.http_ok(f"{api}/health", basic=auth))
    checks.append(health.redis_answers(int(facts["ports"]["redis"]), state.secrets["redis"]))
    pools = {pool.worker: name for name, pool in POOLS.items() if pool.worker in found}
    checks += [health.worker_online(api, pool, basic=auth) for pool in pools.values()]
    answers = await together(*checks)
    healthy = dict(zip([*web, "prefect", "redis", *pools], answers, strict=True))
    held = await health.held_in_prefect(api, basic=auth)
    # Whoever is ready has just asked PostgreSQL: three services that are cannot be without it.
    healthy["postgres"] = any(answers[: len(web)])
    if "front" in found:
        healthy["front"] = await health.accepts(*_place(found["front"]["url"]))
    services = {
        name: {"url": service["url"], "healthy": healthy[name], "log": service["log"], **_condition(service)}
        for name, service in found.items()
        if name in healthy and name not in pools
    }
    workers = [
        {
            "name": name,
            "pool": pool,
            "healthy": healthy[name],
            "log": found[name]["log"],
            **_condition(found[name]),
        }
        for name, pool in pools.items()
    ]
    told = {place: in_words(place, hold) for place, hold in held.items()}
    return {"services": services, "workers": workers, "held": told, "ready_seconds": facts["ready_seconds"]}


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 443


def _condition(service: dict[str, Any]) -> dict[str, Any]:
    """Its process, how often that had to be started again, and why it last had to."""
    return {name: service.get(name) for name in ("pid", "state", "restarts", "reason", "reason_at")}
