"""What partners and people wrote stands on the terminal as they wrote it: it colours nothing and breaks nothing."""

import ast
import io
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deployments.cli import output
from deployments.stack.owner import tied
from deployments.stack.state import REPOSITORY

# Rich's markup, also such as no style knows or nothing opened; an emoji's name; a link; what would command a terminal.
TEXTS = ("[red]x[/red]", "[/]", "[/red]", "[bold", "[nosuchstyle]x", ":smile:", "[link=https://x]y[/link]", r"\[red]x")
COMMANDS = ("\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "a\nb", "\x9b2J")


def on_a_terminal(program: str) -> str:
    """What the program shows where all its streams are a terminal."""
    front, back = pty.openpty()
    # As wide as can be: what is folded is told in two lines.
    environment = os.environ | {"COLUMNS": "300", "TERM": "xterm", "PYTHONPATH": str(REPOSITORY)}
    command = tied(sys.executable, "-c", program)
    with subprocess.Popen(command, stdout=back, stderr=back, env=environment) as process:
        os.close(back)
        shown = b""
        try:
            while part := os.read(front, 65536):
                shown += part
        except OSError:  # Linux's way to say that the other end is closed
            pass
        assert process.wait(60) == 0, shown.decode()
    os.close(front)
    return shown.decode()


DRAWN: dict[str, str] = {
    "table": "output.table([{text!r}], [[{text!r}]])",
    "bar": "with output.bar() as show: show({text!r}, 50)",
    "spinner": "with output.spinner({text!r}) as say: say({text!r})",
}


def test_every_output_function_is_covered_by_these_tests() -> None:
    module = ast.parse(Path(output.__file__).read_text())
    functions = [
        node for node in module.body if isinstance(node, ast.FunctionDef) and "from rich." in ast.unparse(node)
    ]
    assert {function.name for function in functions} == {*DRAWN, "_literal"}


@pytest.mark.parametrize("drawing", DRAWN)
def test_markup_in_data_is_printed_literally(drawing: str) -> None:
    calls = [DRAWN[drawing].format(text=text) for text in TEXTS]
    shown = on_a_terminal("\n".join(["from deployments.cli import output", *calls]))
    assert [text for text in TEXTS if text not in shown] == []


@pytest.mark.parametrize("drawing", DRAWN)
def test_control_characters_in_data_do_not_reach_the_terminal(drawing: str) -> None:
    calls = [DRAWN[drawing].format(text=text) for text in COMMANDS]
    shown = on_a_terminal("\n".join(["from deployments.cli import output", *calls]))
    assert [text for text in COMMANDS if text in shown] == []
    assert "�[31mred�[0m" in shown
    assert "a b" in shown


def test_a_table_that_is_piped_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stdout", written)
    draw: Callable[..., None] = output.table
    draw(("title", "[b]"), [(text, "1") for text in TEXTS])
    lines = written.getvalue().splitlines()
    assert [line.split()[0] for line in lines[1:] if " " not in line.split("  ")[0]] == [
        t for t in TEXTS if " " not in t
    ]
    assert "[b]" in lines[0]
    assert "\x1b" not in written.getvalue()
