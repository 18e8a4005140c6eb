"""leftovers: what ended requests left over, and what no row knows of."""

import json
from collections.abc import Iterator
from typing import Any

import click
import httpx

from deployments.cli.clients import answer, running_stack
from deployments.cli.output import json_option, print_json, table


@click.command()
@click.option(
    "--files", is_flag=True, help="Go through all zones instead, for files that no row needs. It may be slow."
)
@click.option("--remove", is_flag=True, help="With --files: remove them.")
@json_option
def leftovers(files: bool, remove: bool, as_json: bool) -> None:
    """Show how much of ended requests is still kept, and until when. Nothing is removed but by `--files --remove`."""
    if remove and not files:
        raise click.UsageError("--remove goes with --files. What requests left over goes by itself.")
    with running_stack().staff("operator", "domain") as domain:
        if files:
            _show_files(list(_lines(domain, remove=remove)) if as_json else _lines(domain, remove=remove), as_json)
            return
        told = answer(domain.get("/api/v1/leftovers"))
    if as_json:
        print_json(told)
        return
    table(("ended", "requests", "due", "the first of them"), map(_row, told["ended"]))
    click.echo(
        f"What attempts of a completed request left over goes after {_time(told['kept_after_success_seconds'])}, "
        f"all of a failed or cancelled one after {_time(told['kept_after_failure_seconds'])}."
    )


def _show_files(lines: Any, as_json: bool) -> None:
    """Each as it is found. Exit code 1 where some are left."""
    if as_json:
        print_json({**lines[-1], "found": lines[:-1]})
        raise SystemExit(int(lines[-1]["strays"] > lines[-1]["removed"]))
    for line in lines:
        if "zone" in line:
            click.echo(f"{line['zone']}/{line['name']} ({line['size_bytes']:,} bytes): {line['reason']}")
        else:
            click.echo(f"{line['files']:,} files, {line['strays']:,} of them stray ({line['stray_bytes']:,} bytes).")
            raise SystemExit(int(line["strays"] > line["removed"]))


def _lines(domain: httpx.Client, *, remove: bool) -> Iterator[dict[str, Any]]:
    how = ("POST", "/api/v1/leftovers/files/remove") if remove else ("GET", "/api/v1/leftovers/files")
    with domain.stream(*how, timeout=None) as told:
        if not told.is_success:
            told.read()
            answer(told)
        for line in told.iter_lines():
            yield json.loads(line)


def _row(ended: dict[str, Any]) -> tuple[str, ...]:
    return ended["status"], str(ended["requests"]), str(ended["due"]), ended["oldest"][:19]


def _time(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} seconds"
