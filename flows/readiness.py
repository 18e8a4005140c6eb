"""Whether a valid workflow can be run today. Pure."""

from flows.compiler import Plan
from flows.handlers.registry import registry


def unready(plan: Plan) -> list[str]:
    """What keeps a valid workflow from being run: handlers that are declared but not written yet, sub-workflows."""
    known = registry()
    planned = [f"handler {name} is planned" for name in sorted(plan.handlers()) if known[name].planned]
    nested = [f"node {node.id} runs a workflow" for node in plan.nodes.values() if node.workflow]
    return planned + nested
