"""Reads the walk of one submission out of the architecture's page, and holds it against the code."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.rooms_map import REPOSITORY

PAGE = REPOSITORY / "docs/explanation/architecture.md"
HEADING = "## The walk of one submission"
ROW = re.compile(r"^\| \d+ \| (?P<places>[^|]+) \| (?P<by>[^|]+) \| [^|]+ \|$", re.MULTILINE)
MOST_FILES = 60
# How work comes to a file that nothing above it imports.
PASSAGES = ("HTTP", "commit", "NOTIFY", "Prefect", "name", "command", "socket")


@dataclass(frozen=True)
class Stop:
    """One row: a file, the functions that the submission passes there, and how it comes to them."""

    file: str
    functions: Sequence[str]
    by: str


def stops(page: str) -> list[Stop]:
    """The rows of the walk in their order."""
    found = []
    for row in ROW.finditer(page.partition(HEADING)[2]):
        first, *more = re.findall(r"`([^`]+)`", row["places"])
        file, _, function = first.partition(":")
        found.append(Stop(file, (function, *more), row["by"].strip()))
    return found


def faults(walk: Sequence[Stop]) -> Iterator[str]:
    """What is not as the walk says, in sentences."""
    if len(walk) > MOST_FILES:
        yield f"The walk passes {len(walk)} files; more than {MOST_FILES} nobody walks. Which of them could be one?"
    seen: list[str] = []
    for stop in walk:
        if stop.file in seen:
            yield f"{stop.file} stands twice: a reader would have to come back to it."
        if not (REPOSITORY / stop.file).is_file():
            yield f"{stop.file} is not there. Was it moved? Name its new place in {PAGE.name}."
            continue
        known = defined(stop.file)
        for missing in [name for name in stop.functions if name not in known]:
            last = missing.rpartition(".")[2]
            near = sorted(name for name in known if name.rpartition(".")[2].strip("_") == last.strip("_"))
            yield f"{stop.file} has no {missing}. {'There is ' + ', '.join(near) if near else 'Was it renamed?'}"
        if stop.by not in ("call", *PASSAGES):
            yield f"Work comes to {stop.file} by {stop.by!r}, which is none of call, {', '.join(PASSAGES)}."
        elif stop.by == "call" and not any(stop.file in imported(above) for above in seen):
            yield f"Nothing above {stop.file} in the walk imports it: who calls it belongs before it."
        seen.append(stop.file)


@cache
def defined(file: str) -> frozenset[str]:
    """Functions of a file by their qualified names. One declared by a decorator counts as well."""

    def within(body: list[ast.stmt], prefix: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + node.name
            elif isinstance(node, ast.ClassDef):
                yield from within(node.body, f"{prefix}{node.name}.")

    return frozenset(within(ast.parse((REPOSITORY / file).read_text()).body, ""))


@cache
def imported(file: str) -> frozenset[str]:
    """The files that a file imports, wherever in it; of a package that passes a name on, where the name is from."""
    return frozenset(_imports(file))


def _imports(file: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((REPOSITORY / file).read_text())):
        if isinstance(node, ast.Import):
            yield from (path for name in node.names if (path := _file_of(name.name)))
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                here = _file_of(node.module)
                yield from (path for path in (_file_of(f"{node.module}.{name.name}"), here) if path)
                if here and here.endswith("__init__.py") and here != file:
                    yield from (path for path in _passed_on(here, name.name))


def _passed_on(package: str, wanted: str) -> Iterator[str]:
    """Where a package's file has the name from."""
    for node in ast.parse((REPOSITORY / package).read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and wanted in {name.name for name in node.names}:
            yield from (path for path in [_file_of(node.module)] if path)


def _file_of(module: str) -> str | None:
    path = Path(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if (REPOSITORY / file).is_file():
            return str(file)
    return None
