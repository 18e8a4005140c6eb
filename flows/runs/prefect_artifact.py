"""What a run shows in Prefect's UI beside its task runs: its graph, how its nodes stand, where its timeline is."""

import asyncio
import base64
import contextlib
from itertools import islice
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.exceptions import PrefectHTTPStatusError

from flows.compiler import Failed, Finished, Plan, Schedule
from flows.compiler.svg import svg
from flows.runs.run_context import RunContext
from flows.runs.stop_signals import flow_run_id

HUNG_SECONDS = 10.0
SHOWN_ERROR = 500
SHOWN_NODES = 200  # of a larger graph nobody reads a picture


async def show_outline(
    prefect: PrefectClient,
    run_context: RunContext,
    schedule: Schedule,
    verdict: Finished | Failed | None,
    domain_url: str,
    shown: UUID | None = None,
) -> UUID | None:
    """Make the artifact, or correct the one shown before; its id. No run fails or waits long for its picture.

    Asked for by hand: Prefect's own functions send an event for each, which names all that surrounds the run.
    """
    text = outline(run_context, schedule, verdict, domain_url)
    with contextlib.suppress(httpx.HTTPError, PrefectHTTPStatusError, TimeoutError):
        async with asyncio.timeout(HUNG_SECONDS):
            if shown is not None:
                await prefect.request("PATCH", "/artifacts/{id}", path_params={"id": shown}, json={"data": text})
                return shown
            told = {"type": "markdown", "key": f"run-{run_context.facts.id}", "description": "Graph and outcome"}
            run = {"flow_run_id": str(flow_run_id())}
            made = await prefect.request("POST", "/artifacts/", json=told | run | {"data": text})
            return UUID(made.json()["id"])
    return shown


def outline(run_context: RunContext, schedule: Schedule, verdict: Finished | Failed | None, domain_url: str) -> str:
    """The artifact's Markdown. Errors may quote partners: they stand in a block that nothing can leave."""
    facts, plan = run_context.facts, schedule.plan
    head = f"**{plan.workflow_id}** version {plan.version}, attempt {facts.attempt}: {_standing(verdict)}"
    timeline = f"[Timeline of the request]({domain_url.rstrip('/')}/api/v1/requests/{facts.request_id}/timeline)"
    rows = ["| node | state |", "|---|---|"]
    rows += [f"| {name} | {state.value} |" for name, state in islice(schedule.states.items(), SHOWN_NODES)]
    if len(schedule.states) > SHOWN_NODES:
        rows.append(f"| … | {len(schedule.states) - SHOWN_NODES} more |")
    picture = [_picture(plan)] if len(plan.nodes) <= SHOWN_NODES else []
    parts = [head, timeline, *picture, "\n".join(rows)]
    if isinstance(verdict, Failed):
        quoted = verdict.error.message[:SHOWN_ERROR].replace("`", "'")
        parts.insert(1, f"```text\n{verdict.error.node_id or 'run'}: {quoted}\n```")
    return "\n\n".join(parts)


def _standing(verdict: Finished | Failed | None) -> str:
    if verdict is None:
        return "running"
    return "completed" if isinstance(verdict, Finished) else f"failed ({verdict.error.code})"


def _picture(plan: Plan) -> str:
    return f"![Graph](data:image/svg+xml;base64,{base64.b64encode(svg(plan).encode()).decode()})"
