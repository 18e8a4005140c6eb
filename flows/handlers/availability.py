"""Tells whether a valid workflow can run today, and in this image. Pure."""

from collections.abc import Iterable, Mapping

from flows.compiler import Plan
from flows.handlers.registry import registry


def unready(plan: Plan, plans: Mapping[str, Plan] | None = None) -> list[str]:
    """Return what keeps a valid workflow from running: handlers, here or in sub-workflows, that are not written yet."""
    known = registry()
    planned = [f"handler {name} is planned" for name in sorted(plan.handlers()) if known[name].planned]
    below = [f"workflow {name}: {why}" for name in sorted(plan.sub_workflows) for why in _unready(name, plans or {})]
    return planned + below


def missing_handlers(plans: Iterable[Plan]) -> list[str]:
    """Return the handlers that this image lacks, since a run's plan may be of another release."""
    return sorted(frozenset[str]().union(*(plan.handlers() for plan in plans)).difference(registry()))


def _unready(name: str, plans: Mapping[str, Plan]) -> list[str]:
    others = {other: plan for other, plan in plans.items() if other != name}  # a workflow below itself: told elsewhere
    return unready(plans[name], others) if name in plans else []
