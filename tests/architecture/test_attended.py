"""What is begun side by side is waited for together: no failure of one leaves the others to work on unwatched."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
ROOMS = ("flows", "blocks", "domain", "gateway", "deployments")
MECHANISM = "domain/shared/together.py"


def unattended(source: str) -> Iterator[int]:
    """Lines of `asyncio.gather` that returns with the first failure."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and _name(node.func) == "gather":
            told = {keyword.arg: keyword.value for keyword in node.keywords}
            waits = told.get("return_exceptions")
            if not (isinstance(waits, ast.Constant) and waits.value is True):
                yield node.lineno


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr if isinstance(function.value, ast.Name) and function.value.id == "asyncio" else ""
    return function.id if isinstance(function, ast.Name) else ""


def lines() -> dict[str, list[int]]:
    files = sorted(file for room in ROOMS for file in (REPOSITORY / room).rglob("*.py"))
    named = {file.relative_to(REPOSITORY).as_posix(): file for file in files}
    return {name: list(unattended(file.read_text())) for name, file in named.items()}


def test_gathered_tasks_are_not_left_unattended_by_a_failure() -> None:
    found = {name: numbers for name, numbers in lines().items() if numbers}
    assert set(found) == {MECHANISM}
    assert len(found[MECHANISM]) == 1


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("await asyncio.gather(one(), two())", True),
        ("await asyncio.gather(*many, return_exceptions=False)", True),
        ("await gather(one(), two())", True),
        ("await asyncio.gather(*many, return_exceptions=True)", False),
        ("self.words.gather(one)", False),
    ],
)
def test_unattended_gathering_is_found_by_its_line(line: str, is_found: bool) -> None:
    assert list(unattended(f"async def work():\n    {line}")) == ([2] if is_found else [])
