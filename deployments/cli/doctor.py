"""doctor: what this machine lacks, and what of a running stack is not well."""

import click

from deployments.cli.output import json_option, print_json
from deployments.doctor.finding import Finding, summary

COLOURS = {"ok": "green", "warning": "yellow", "wrong": "red"}


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Look whether everything that Cairn needs is there, and say what to do where it is not.

    Looks at this machine, at the stack's folder and, where a stack is up, at its services, schema, workers and clock.
    Changes nothing. Exit code 1 where something is wrong; warnings are none.
    """
    from deployments.doctor.examination import examine
    from deployments.stack.state import StackState

    found = []
    for finding in examine(StackState.default()):
        found.append(finding)
        if not as_json:
            _show(finding)
    told = summary(found)
    if as_json:
        print_json(told)
    else:
        counts = told["counts"]
        click.echo(f"{counts['ok']} ok, {counts['warning']} to look at, {counts['wrong']} wrong.")
    if not told["healthy"]:
        raise SystemExit(1)


def _show(finding: Finding) -> None:
    """Print one finding on one line."""
    verdict = click.style(f"{finding.verdict:<8}", fg=COLOURS[finding.verdict])
    advice = f": {finding.advice}" if finding.advice else ""
    click.echo(f"{verdict} {finding.check:<13} {finding.detail}{advice}")
