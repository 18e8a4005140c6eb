"""clients: credentials of partners, people and services. A key or secret is printed once, by whoever makes it."""

from collections.abc import Mapping
from typing import Any

import click

from deployments.cli.clients import answer, running_stack, say
from deployments.cli.output import json_option, print_json, table
from domain.security import may_hand_out

ROLES = ("partner", "reviewer", "operator", "admin", "worker", "gateway")


@click.group()
def clients() -> None:
    """Credentials: list, create, rotate and revoke them."""


@clients.command("list")
@json_option
def list_clients(as_json: bool) -> None:
    """Every client, without keys."""
    with running_stack().staff("operator", "domain") as domain:
        known = answer(domain.get("/api/v1/clients"))
    if as_json:
        print_json(known)
        return
    table(
        ("CLIENT", "ROLE", "PLATFORM", "ACTIVE", "KEY", "UNTIL", "LAST USED", "NAME"),
        [
            (
                row["client_id"],
                row["role"],
                row["platform_id"] or "",
                _yes(row["is_active"]),
                row["key_prefix"] or "",
                _minute(row["key_until"]),
                _minute(row["last_used_at"]),
                row["display_name"],
            )
            for row in known
        ],
    )


@clients.command("create")
@click.argument("client_id")
@click.option("--role", type=click.Choice(ROLES), required=True)
@click.option("--platform", "platform_id", help="For partners: the system they speak for.")
@click.option("--name", "display_name", help="What people read; the id where none is given.")
@click.option("--scope", "scopes", type=click.Choice(["review"]), multiple=True, help="For partners: may decide, too.")
@click.option("--days", "key_days", type=click.IntRange(1, 3650), help="How long each of its keys works.")
@json_option
def create_client(client_id: str, display_name: str | None, as_json: bool, **facts: Any) -> None:
    """Make CLIENT_ID and print its key, once."""
    body = {**facts, "client_id": client_id, "display_name": display_name or client_id}
    _print_secret(_post("/api/v1/clients", body, _who_hands_out(body)), "api_key", as_json)


@clients.command("rotate")
@click.argument("client_id")
@json_option
def rotate_key(client_id: str, as_json: bool) -> None:
    """Give CLIENT_ID a new key and print it, once. The one before works on for a day."""
    with running_stack().staff("operator", "domain") as domain:
        known = {row["client_id"]: row for row in answer(domain.get("/api/v1/clients"))}
    who = _who_hands_out(known[client_id]) if client_id in known else "operator"
    _print_secret(_post(f"/api/v1/clients/{client_id}/rotate", role=who), "api_key", as_json)


@clients.command("callback-secret")
@click.argument("client_id")
@json_option
def rotate_callback_secret(client_id: str, as_json: bool) -> None:
    """Give CLIENT_ID a new secret to verify callbacks with, and print it, once. The one before signs on for a day."""
    _print_secret(_post(f"/api/v1/clients/{client_id}/callback-secret"), "callback_secret", as_json)


@clients.command("bind")
@click.argument("client_id")
@click.option("--subject", required=True, help="`sub`, as the page says that shows who is not bound yet.")
@click.option("--issuer", help="`iss`; the console's own sign-in service where none is given.")
@json_option
def bind_client(client_id: str, subject: str, issuer: str | None, as_json: bool) -> None:
    """Have a person of your sign-in service be CLIENT_ID at the console."""
    body = {"issuer": issuer, "subject": subject}
    with running_stack().staff("admin", "domain") as domain:
        bound = answer(domain.put(f"/api/v1/clients/{client_id}/sign-in", json=body))
    if as_json:
        print_json(bound)
    else:
        click.echo(f"{client_id} is {bound['oidc_subject']} of {bound['oidc_issuer']}.")


@clients.command("unbind")
@click.argument("client_id")
@json_option
def unbind_client(client_id: str, as_json: bool) -> None:
    """Have nobody of your sign-in service be CLIENT_ID any more."""
    with running_stack().staff("admin", "domain") as domain:
        done = answer(domain.delete(f"/api/v1/clients/{client_id}/sign-in"))
    if as_json:
        print_json(done)
    else:
        click.echo(f"Nobody signs in as {client_id} any more.")


@clients.command("revoke")
@click.argument("client_id")
@json_option
def revoke_client(client_id: str, as_json: bool) -> None:
    """Have none of CLIENT_ID's keys work any more."""
    revoked = _post(f"/api/v1/clients/{client_id}/revoke")
    if as_json:
        print_json(revoked)
    else:
        click.echo(f"{client_id} is revoked.")


def _post(path: str, body: dict[str, Any] | None = None, role: str = "operator") -> dict[str, Any]:
    with running_stack().staff(role, "domain") as domain:
        done: dict[str, Any] = answer(domain.post(path, json=body))
    return done


def _who_hands_out(client: Mapping[str, Any]) -> str:
    """Return as whom the stack asks this: operators hand out no credential that decides."""
    return "operator" if may_hand_out("operator", client["role"], client["scopes"]) else "admin"


def _print_secret(made: dict[str, Any], name: str, as_json: bool) -> None:
    """The secret alone on standard output, so that it can be piped to where it is kept."""
    if as_json:
        print_json(made)
        return
    say(f"{made['client_id']}: keep this; it is not shown again.")
    click.echo(made[name])


def _minute(moment: str | None) -> str:
    return moment[:16].replace("T", " ") if moment else ""


def _yes(value: bool) -> str:
    return "yes" if value else "no"
