"""What people and programs read: tables and progress on a terminal, JSON and nothing else with --json.

The one file that knows Rich. Whatever it is given to draw is data: text that stands there as it was written, never
markup, an emoji's name or a terminal's own commands.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

if TYPE_CHECKING:
    from rich.text import Text

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
        drawn.add_column(_literal(heading), overflow="fold")  # an id that is cut short is no id
    for row in rows:
        drawn.add_row(*map(_literal, row))
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    Console(file=sys.stdout, width=width).print(drawn)


@contextmanager
def bar() -> Iterator[Callable[[str, float], None]]:
    """A bar on the terminal: called with what is being done, and how many percent of it are."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    words = TextColumn("{task.description}", markup=False)
    percent = TextColumn("{task.percentage:>3.0f}%", markup=False)
    with Progress(words, BarColumn(), percent, TimeElapsedColumn(), console=Console(file=sys.stderr)) as drawn:
        task = drawn.add_task("waiting", total=100)
        yield lambda text, done: drawn.update(task, description=_printable(text), completed=done)


@contextmanager
def spinner(text: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner beside a text on the terminal; a call changes the text."""
    from rich.console import Console

    with Console(file=sys.stderr).status(_literal(text)) as drawn:
        yield lambda now: drawn.update(_literal(now))


def _literal(text: str) -> "Text":
    from rich.text import Text

    return Text(_printable(text))


def _printable(text: str) -> str:
    """Return the text on one line, with control characters shown as missing ones."""
    return "".join(
        each if each.isprintable() else " " if each.isspace() else "\N{REPLACEMENT CHARACTER}" for each in text
    )
