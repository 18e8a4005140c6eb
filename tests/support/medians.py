"""Prints how long the house's files and functions are in the middle: `python -m tests.support.medians`."""

import ast
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.support.rooms_map import REPOSITORY, ROOMS


def files() -> list[Path]:
    """The modules of the rooms. What only names a package is none."""
    return sorted(file for room in ROOMS for file in (REPOSITORY / room).rglob("*.py") if file.name != "__init__.py")


def functions(file: Path) -> Iterator[int]:
    """The lines of each function and method, signature and docstring included."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            yield node.end_lineno - node.lineno + 1


def main() -> None:
    lines = [len(file.read_text().splitlines()) for file in files()]
    inside = [length for file in files() for length in functions(file)]
    print(f"{len(lines):,} files, median {median(lines):g} lines; the longest {max(lines)}")  # noqa: T201
    print(f"{len(inside):,} functions, median {median(inside):g} lines; the longest {max(inside)}")  # noqa: T201


if __name__ == "__main__":
    main()
