"""What a run shows in Prefect's UI beside its task runs: its graph, how its nodes ended, where its page is. Pure."""

import base64
from collections.abc import Mapping
from itertools import islice

from flows.compiler import Failed, Finished, Plan, State
from flows.compiler.svg import svg
from flows.runs.run_context import RunContext

SHOWN_ERROR = 500
SHOWN_NODES = 200  # of a larger graph nobody reads a picture
DESCRIPTION = "Graph and outcome"


def outline(
    run_context: RunContext,
    plan: Plan,
    verdict: Finished | Failed | None = None,
    states: Mapping[str, State] | None = None,
) -> str:
    """The artifact's Markdown. Errors may quote partners: they stand in a block that nothing can leave.

    Before there is a verdict it says nothing of how the run stands: where the run's process dies, nobody corrects it.
    """
    facts = run_context.facts
    standing = f": {_standing(verdict)}" if verdict else ""
    parts = [f"**{plan.workflow_id}** version {plan.version}, attempt {facts.attempt}{standing}"]
    if isinstance(verdict, Failed):
        quoted = verdict.error.message[:SHOWN_ERROR].replace("`", "'")
        parts.append(f"```text\n{verdict.error.node_id or 'run'}: {quoted}\n```")
    if run_context.page_url:
        parts.append(f"[At the console]({run_context.page_url}) · request {facts.request_id}, run {facts.id}")
    parts += [_picture(plan)] if len(plan.nodes) <= SHOWN_NODES else []
    return "\n\n".join([*parts, _table(states)] if states else parts)


def _table(states: Mapping[str, State]) -> str:
    rows = ["| node | state |", "|---|---|"]
    rows += [f"| {name} | {state.value} |" for name, state in islice(states.items(), SHOWN_NODES)]
    if len(states) > SHOWN_NODES:
        rows.append(f"| … | {len(states) - SHOWN_NODES} more |")
    return "\n".join(rows)


def _standing(verdict: Finished | Failed) -> str:
    return "completed" if isinstance(verdict, Finished) else f"failed ({verdict.error.code})"


def _picture(plan: Plan) -> str:
    return f"![Graph](data:image/svg+xml;base64,{base64.b64encode(svg(plan).encode()).decode()})"
