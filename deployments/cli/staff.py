"""approve, reject: what reviewers do, from the command line."""

import time
from typing import Any

import click
import httpx

from deployments.cli.clients import answer, running_stack, say
from deployments.cli.output import json_option, print_json

BEING_READ = "files-being-read"


@click.command()
@click.argument("request_id")
@click.option("--clearance", type=click.Choice(["ouo", "public"]), required=True, help="Who may read it from now on.")
@click.option("--comment", help="Kept with the decision.")
@json_option
def approve(request_id: str, clearance: str, comment: str | None, as_json: bool) -> None:
    """Approve what REQUEST_ID produced. It is served once as many have as its platform asks for."""
    _decide("approve", {"request_id": request_id, "clearance_level": clearance, "comment": comment}, as_json)


@click.command()
@click.argument("request_id")
@click.option("--reason", required=True, help="Told to the partner.")
@json_option
def reject(request_id: str, reason: str, as_json: bool) -> None:
    """Reject what REQUEST_ID produced. What was served before goes on being served."""
    _decide("reject", {"request_id": request_id, "reason": reason}, as_json)


def _decide(verb: str, body: dict[str, Any], as_json: bool) -> None:
    with running_stack().staff("reviewer") as gateway:
        decision = answer(_once_read(gateway, verb, body))
    if as_json:
        print_json(decision)
        return
    click.echo(
        f"asset {decision['asset_id']} version {decision['ordinal']} revision {decision['revision']}: "
        f"{decision['approval']} with {decision['approvals']} of {decision['approvals_required']} approvals, "
        f"clearance {decision['clearance']}, latest is {decision['latest_ordinal']}"
    )


def _once_read(gateway: httpx.Client, verb: str, body: dict[str, Any]) -> httpx.Response:
    """Return the answer once the revision's files have been read, which takes a while for large ones."""
    is_told = False
    while True:
        response = gateway.post(f"/api/platform/{verb}", json=body)
        if response.status_code != httpx.codes.SERVICE_UNAVAILABLE or response.json().get("code") != BEING_READ:
            return response
        if not is_told:
            say("The files are being read, to see that they are what was made. Waiting for that.")
        is_told = True
        time.sleep(float(response.headers["Retry-After"]))
