"""runs, cancel, rerun, pause, resume, limit: what operators see of the work and order about it."""

from collections.abc import Callable
from typing import Any

import click
import httpx

from deployments.cli.clients import answer, running_stack
from deployments.cli.output import Function, json_option, print_json, table

STATUSES = click.Choice(["active", "pending", "running", "completed", "failed", "cancelled"])
SHOWN = ("state", "reason", "priority", "pool", "created_at")


@click.command()
@click.option("--status", type=STATUSES, default="active", show_default=True)
@click.option("--workflow", "workflow_id", help="Only runs of this workflow.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--after", help="Go on after this token, the `next` of the list before.")
@json_option
def runs(status: str, workflow_id: str | None, limit: int, after: str | None, as_json: bool) -> None:
    """List the runs of a status, newest first."""
    asked = {"status": status, "workflow_id": workflow_id, "limit": limit, "after": after}
    with _domain() as domain:
        listed = answer(domain.get("/api/v1/runs", params={name: value for name, value in asked.items() if value}))
    if as_json:
        print_json(listed)
    else:
        table(
            ("run", "workflow", *SHOWN),
            [[run["run_id"], run["workflow"]["id"], *(_shown(run, name) for name in SHOWN)] for run in listed["runs"]],
        )
        if listed["next"]:
            of = f" --workflow {workflow_id}" if workflow_id else ""
            click.echo(f"More: cairn runs --status {status}{of} --limit {limit} --after {listed['next']}")


def _shown(run: dict[str, Any], name: str) -> str:
    """A field of a run; its reason with the pool or order that it is about."""
    about = run.get("held_by") or run.get("unroutable_why") or run.get("unroutable_pool") if name == "reason" else None
    return f"{run[name]}: {about}" if about else str(run[name] or "")


@click.command()
@click.argument("request_id")
@click.option("--reason", required=True, help="Kept with the order.")
@json_option
def cancel(request_id: str, reason: str, as_json: bool) -> None:
    """Stop REQUEST_ID: what waits at once, what runs within seconds."""
    with _domain() as domain:
        stands = answer(domain.post(f"/api/v1/requests/{request_id}/cancel", json={"reason": reason}))
    _show(stands, as_json)


@click.command()
@click.argument("run_id")
@click.option("--scope", type=click.Choice(["failed", "all"]), default="failed", show_default=True)
@click.option("--definition", type=click.Choice(["pinned", "current"]), default="pinned", show_default=True)
@json_option
def rerun(run_id: str, scope: str, definition: str, as_json: bool) -> None:
    """Do RUN_ID again, with the later runs of its request that its end had cancelled; `all` redoes the request."""
    with _domain() as domain:
        stands = answer(domain.post(f"/api/v1/runs/{run_id}/rerun", json={"scope": scope, "definition": definition}))
    _show(stands, as_json)


def _about(command: Function) -> Function:
    """What a pause is about: one workflow, one platform, or everything."""
    options: list[Callable[[Function], Function]] = [
        click.option("--workflow", "workflow_id", help="Only this workflow."),
        click.option("--platform", "platform_id", help="Only this platform."),
    ]
    for option in options:
        command = option(command)
    return command


@click.command()
@_about
@click.option("--reason", required=True, help="Shown to whoever wonders.")
@json_option
def pause(workflow_id: str | None, platform_id: str | None, reason: str, as_json: bool) -> None:
    """Dispatch nothing new. What has started ends; what waits loses nothing."""
    _order("pause", workflow_id, platform_id, as_json, reason=reason)


@click.command()
@_about
@json_option
def resume(workflow_id: str | None, platform_id: str | None, as_json: bool) -> None:
    """Go on where a pause stopped."""
    _order("resume", workflow_id, platform_id, as_json)


@click.command()
@click.option("--workflow", help="Runs of this workflow.")
@click.option("--platform", help="Runs of this platform.")
@click.option("--pool", help="Runs on this pool.")
@click.argument("value", metavar="N|none")
@json_option
def limit(workflow: str | None, platform: str | None, pool: str | None, value: str, as_json: bool) -> None:
    """Have at most N runs in flight at a time; `none` takes the limit away. What has started goes on."""
    named = [(of, name) for of, name in (("workflow", workflow), ("platform", platform), ("pool", pool)) if name]
    if len(named) != 1:
        raise click.UsageError("Name one of --workflow, --platform and --pool.")
    if value != "none" and not value.isdecimal():
        raise click.BadParameter(f"{value!r} is neither a number nor none.", param_hint="N")
    (of, name) = named[0]
    body = {"kind": "in_flight", "of": of, "name": name, "value": None if value == "none" else int(value)}
    held = _held_after("PUT", "limits", body)
    if as_json:
        print_json(held)
        return
    limits = [f"{setting['name']} {setting['value']}" for setting in held if setting["kind"] == "in_flight"]
    click.echo(f"At most in flight: {', '.join(limits)}." if limits else "Nothing is limited beyond the settings.")


def _order(verb: str, workflow_id: str | None, platform_id: str | None, as_json: bool, **more: str) -> None:
    about = {"workflow_id": workflow_id, "platform_id": platform_id}
    held = _held_after("POST", verb, {name: value for name, value in about.items() if value} | more)
    if as_json:
        print_json(held)
        return
    pauses = [setting["name"] for setting in held if setting["kind"] == "pause"]
    click.echo(f"Paused: {', '.join(pauses)}." if pauses else "Nothing is paused.")


def _held_after(method: str, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Send the order, and return what is paused and limited afterwards."""
    with _domain() as domain:
        done = domain.request(method, f"/api/v1/{path}", json=body)
        if not done.is_success:
            answer(done)
        held: list[dict[str, Any]] = answer(domain.get("/api/v1/settings"))
    return held


def _show(stands: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(stands)
    else:
        click.echo(f"request {stands['request_id']}: {stands['status']}")


def _domain() -> httpx.Client:
    return running_stack().staff("operator", "domain")
