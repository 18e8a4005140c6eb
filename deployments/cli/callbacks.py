"""callbacks: what partners were told, how each try went, and telling them again."""

from typing import Any

import click

from deployments.cli.clients import answer, running_stack
from deployments.cli.output import json_option, print_json, table

STATES = ("ready", "sending", "delivered", "failed", "disabled")


@click.group()
def callbacks() -> None:
    """Callbacks to partners: list them, look at their tries, send one again."""


@callbacks.command("list")
@click.option("--request", "request_id", help="Only those of this request.")
@click.option("--state", type=click.Choice(STATES), help="Only those in this state.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 500))
@click.option("--after", help="Go on after this token, the `next` of the list before.")
@json_option
def list_callbacks(request_id: str | None, state: str | None, limit: int, after: str | None, as_json: bool) -> None:
    """Callbacks, newest first."""
    asked = {"request_id": request_id, "state": state, "limit": limit, "after": after}
    given = {name: value for name, value in asked.items() if value is not None}
    with running_stack().staff("operator", "domain") as domain:
        page = answer(domain.get("/api/v1/callbacks", params=given))
    if as_json:
        print_json(page)
        return
    table(
        ("CALLBACK", "REQUEST", "TOLD", "STATE", "TRIES", "TO"),
        [
            (row["callback_id"], row["request_id"], row["status"], row["state"], str(row["tries"]), row["url"])
            for row in page["callbacks"]
        ],
    )
    if page["next"]:
        click.echo(f"More: cairn callbacks list --after {page['next']}")


@callbacks.command("show")
@click.argument("callback_id", type=click.UUID)
@json_option
def show_callback(callback_id: object, as_json: bool) -> None:
    """One callback and every try to deliver it."""
    with running_stack().staff("operator", "domain") as domain:
        _show(answer(domain.get(f"/api/v1/callbacks/{callback_id}")), as_json)


@callbacks.command("replay")
@click.argument("callback_id", type=click.UUID)
@json_option
def replay_callback(callback_id: object, as_json: bool) -> None:
    """Send CALLBACK_ID again, under the same webhook id. An endpoint that was disabled is enabled by this."""
    with running_stack().staff("operator", "domain") as domain:
        _show(answer(domain.post(f"/api/v1/callbacks/{callback_id}/replay")), as_json)


def _show(detail: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(detail)
        return
    click.echo(f"{detail['callback_id']} tells {detail['url']} that request {detail['request_id']} {detail['status']}")
    click.echo(f"state {detail['state']}, {detail['tries']} tries, next {detail['next_try_at'] or 'none'}")
    table(
        ("AT", "ANSWER", "MS", "SAID"),
        [
            (
                row["at"],
                str(row["status_code"] or "none"),
                str(row["duration_ms"]),
                " ".join((row["error"] or row["excerpt"] or "").split()),
            )
            for row in detail["deliveries"]
        ],
    )
