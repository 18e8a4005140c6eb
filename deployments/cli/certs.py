"""certs: the certificates by which other hosts know the embedded stack."""

from typing import Any

import click

from deployments.cli.output import fail, json_option, print_json
from deployments.stack.state import StackState


@click.group()
def certs() -> None:
    """Show and renew the certificates of a stack that `cairn up --listen` opens to other hosts."""


@certs.command()
@json_option
def show(as_json: bool) -> None:
    """Show names, ends and fingerprints; exit code 1 where there are none, or one has ended."""
    from deployments.stack.opening import certificates_of

    facts = certificates_of(StackState.default()).facts()
    if as_json:
        print_json(facts)
    else:
        for what, told in facts.items():
            click.echo(_line(what, told))
        if not facts:
            click.echo("There are no certificates: `cairn up --listen ADDRESS` makes them.")
    if not facts or any(told["days_left"] < 0 for told in facts.values()):
        raise SystemExit(1)


@certs.command()
@click.option("--authority", is_flag=True, help="A new authority too: worker hosts must be given ca.pem again.")
@json_option
def renew(authority: bool, as_json: bool) -> None:
    """Make a new server certificate now. A running stack uses it within ten seconds, without a restart.

    `cairn up --listen` renews what ends within 30 days by itself.
    """
    from deployments.stack.opening import Opening

    opening = Opening(StackState.default(), "")
    found, names = opening.certificates, opening.certificates.names()
    if not names:
        fail("there are no certificates to renew: `cairn up --listen ADDRESS` makes them.", 1)
    found.renew(names, authority=authority)
    opening.write_authority()
    facts = found.facts()
    if as_json:
        print_json(facts)
        return
    click.echo(_line("server", facts["server"]))
    if authority:
        click.echo(f"Give worker hosts {opening.authority} again: they trust the former one only.")


def _line(what: str, told: dict[str, Any]) -> str:
    names = f" for {', '.join(told['names'])}" if told["names"] else ""
    return f"{what}{names}: until {told['valid_until'][:10]} ({told['days_left']} days), SHA-256 {told['sha256']}"
