"""audit: who did what, and whether the record of it was touched."""

from typing import Any

import click

from deployments.cli.clients import answer, running_stack, say
from deployments.cli.output import json_option, print_json, table


@click.group(invoke_without_command=True)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many acts to show.")
@click.option("--after", type=int, default=0, help="Only acts with a higher number.")
@click.option("--action", help="Only acts of this kind, as in approve.")
@click.option("--subject", help="Only acts on this, as in asset/0f3a.")
@json_option
@click.pass_context
def audit(
    context: click.Context, limit: int, after: int, action: str | None, subject: str | None, as_json: bool
) -> None:
    """Show who did what: decisions, commands, credentials. `cairn audit verify` checks that nothing was changed."""
    if context.invoked_subcommand is not None:
        return
    asked: dict[str, Any] = {"limit": limit, "after": after, "action": action, "subject": subject}
    with running_stack().staff("operator", "domain") as domain:
        given = {name: value for name, value in asked.items() if value is not None}
        page = answer(domain.get("/api/v1/audit", params=given))
    if as_json:
        print_json(page)
        return
    table(("#", "at", "actor", "action", "subject"), map(_row, page["entries"]))


@audit.command()
@click.option("--sequence", type=click.IntRange(min=1), help="A seal that was noted earlier.")
@click.option("--hash", "noted", help="Its hash: together they prove that nothing was cut off since.")
@json_option
def verify(sequence: int | None, noted: str | None, as_json: bool) -> None:
    """Follow the chain of seals from its beginning. Exit code 1 where it does not hold."""
    if (sequence is None) is not (noted is None):
        raise click.UsageError("--sequence and --hash go together.")
    given = {} if sequence is None else {"sequence": sequence, "hash": noted}
    with running_stack().staff("operator", "domain") as domain:
        verdict = answer(domain.get("/api/v1/audit/verify", params=given, timeout=300))
    if as_json:
        print_json(verdict)
    elif verdict["holds"]:
        if not verdict["is_keyed"]:
            say("The newest seal has no key: whoever writes to the database can remake the chain (CAIRN_AUDIT_KEYS).")
        click.echo(f"The chain holds up to seal {verdict['sequence']}; {verdict['unsealed']} acts wait for theirs.")
        click.echo(f"Note this elsewhere: --sequence {verdict['sequence']} --hash {verdict['hash']}")
    else:
        click.echo(f"The chain is broken at seal {verdict['sequence']}: {verdict['fault']}")
    if not verdict["holds"]:
        raise SystemExit(1)


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    return str(entry["audit_id"]), entry["at"][:19], entry["actor"], entry["action"], entry["subject"]
