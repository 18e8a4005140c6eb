"""What people and programs read: tables and progress on a terminal, JSON and nothing else with --json."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

import click

PIPED_WIDTH = 1000
Function = TypeVar("Function", bound=Callable[..., Any])


def json_option(command: Function) -> Function:
    """`--json`: the answer for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs and nothing else.")(command)


def print_json(content: Any) -> None:
    click.echo(json.dumps(content, indent=2, default=str))


def fail(message: str, code: int = 2) -> NoReturn:
    """End with a sentence: 1 where the answer is no, 2 where the question could not be asked."""
    click.echo(f"cairn: {message}", err=True)
    raise SystemExit(code)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table that fits the terminal; plain aligned text elsewhere."""
    from rich.console import Console
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        drawn.add_column(heading, overflow="fold")  # an id that is cut short is no id
    for row in rows:
        drawn.add_row(*row)
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    Console(file=sys.stdout, width=width).print(drawn)
