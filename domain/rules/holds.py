"""What keeps runs from beginning by somebody's order: pauses and limits of 0, of ours and of Prefect's pools. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from domain.rules.control import EVERYTHING

PAUSED = "paused"  # the reason that such a run shows
NO_ROOM = "limit"


def held_places(pools: Iterable[Mapping[str, Any]], queues: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return how Prefect's pools, and queues as pool/queue, are held that give nothing to workers now.

    Both come as Prefect words them. A queue of a held pool is not named beside it.
    """
    held = {pool["name"]: hold for pool in pools if (hold := _hold(pool))}
    named = {
        f"{queue['work_pool_name']}/{queue['name']}": hold
        for queue in queues
        if queue.get("work_pool_name") not in held and (hold := _hold(queue))
    }
    return held | named


def _hold(place: Mapping[str, Any]) -> str | None:
    if place.get("is_paused"):
        return PAUSED
    return NO_ROOM if place.get("concurrency_limit") == 0 else None


def in_words(place: str, hold: str) -> str:
    """Say how a place of Prefect's is held."""
    kind = "queue" if "/" in place else "pool"
    return f"{kind} {place} is paused in Prefect" if hold == PAUSED else f"{kind} {place} has a limit of 0 in Prefect"


def order_in_words(name: str, hold: str) -> str:
    """Say which pause or limit of ours holds a run; `name` as in the settings."""
    what = "dispatch" if name == EVERYTHING else name.replace(":", " ", 1)
    return f"{what} is paused" if hold == PAUSED else f"{what} has a limit of 0 in flight"
