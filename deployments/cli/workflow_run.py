"""workflow run: an operator's own run of a workflow, followed to its end."""

import json
import time
from pathlib import Path
from typing import Any

import click
import httpx

from deployments.cli.clients import answer, running_stack, say
from deployments.cli.fixtures import read_fixtures
from deployments.cli.output import json_option, print_json

POLL_SECONDS = 0.5
OPEN = ("pending", "running")


@click.command("run")
@click.argument("workflow_id")
@click.option("--inputs", "-i", multiple=True, metavar="NAME=VALUE", help="An input; VALUE is JSON, or else text.")
@click.option("--only", default="", metavar="A,B", help="Run these nodes only.")
@click.option("--from", "start_from", default="", metavar="A,B", help="Run these nodes and all that follow.")
@click.option("--outputs-of", metavar="RUN", help="Of a part: take over what other nodes returned in this run.")
@click.option("--fixtures", type=click.Path(path_type=Path), help="Of a part: JSON or YAML, what other nodes return.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Stay until the run has ended.")
@json_option
def run(
    *,
    workflow_id: str,
    inputs: tuple[str, ...],
    only: str,
    start_from: str,
    outputs_of: str | None,
    fixtures: Path | None,
    wait: bool,
    as_json: bool,
) -> None:
    """Run WORKFLOW_ID on the running stack, as its operator.

    Files that it makes belong to a scratch asset of their own, which staff may look at and nobody can publish.
    """
    body: dict[str, Any] = {"workflow_id": workflow_id, "inputs": dict(map(_pair, inputs))}
    body |= {"only": _names(only), "from": _names(start_from)}
    body |= {"outputs_of": outputs_of, "outputs": read_fixtures(fixtures)}
    with running_stack().staff("operator", "domain") as domain:
        created = answer(domain.post("/api/v1/runs", json=body))
        if not wait:
            print_json(created) if as_json else click.echo(f"run {created['run_id']}")
            return
        ended = _follow(domain, created["run_id"], quiet=as_json)
    if not as_json and (asset_id := created["asset_id"]):
        say(
            f"What it made is scratch: asset {asset_id}. Remove it with `cairn assets delete {asset_id} --reason done`."
        )
    if as_json:
        print_json(ended)
    else:
        click.echo(json.dumps(ended["outputs"], indent=2) if ended["outputs"] is not None else _why(ended))
    if ended["state"] != "completed":
        raise SystemExit(1)


def _pair(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE.", param_hint="--inputs")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _follow(domain: httpx.Client, run_id: str, *, quiet: bool) -> dict[str, Any]:
    """Ask until the run has ended, telling each new state."""
    told = None
    while True:
        run: dict[str, Any] = answer(domain.get(f"/api/v1/runs/{run_id}"))
        if not quiet and run["state"] != told:
            told = run["state"]
            say(f"run {run_id}: {told}")
        if run["state"] not in OPEN:
            return run
        time.sleep(POLL_SECONDS)


def _why(run: dict[str, Any]) -> str:
    problem = run["problem"] or {}
    return f"{problem.get('node_id') or 'run'}: {problem.get('message', run['state'])}"
