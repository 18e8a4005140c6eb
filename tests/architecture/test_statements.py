"""Whoever is handed a session to pass it on writes no statement: repositories do."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
HOLDERS = ("domain/services", "domain/loops", "domain/console", "domain/api")
# The session itself, how it fails, and the database's clock as a value.
MAY_KNOW = {"sqlalchemy.ext.asyncio", "sqlalchemy.exc", "sqlalchemy.pool"}
VALUES = {"func"}
STATEMENTS = {"select", "insert", "update", "delete", "text", "exists", "union"}


def known_of_sqlalchemy(source: str) -> Iterator[str]:
    """What the source imports from SQLAlchemy beyond what a holder of a session needs."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.partition(".")[0] == "sqlalchemy")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "sqlalchemy":
            names = {name.name for name in node.names}
            if node.module not in MAY_KNOW:
                yield from (f"{node.module}.{name}" for name in sorted(names - VALUES))


@pytest.mark.parametrize("folder", HOLDERS)
def test_modules_with_sessions_write_no_statement(folder: str) -> None:
    files = list((REPOSITORY / folder).rglob("*.py"))
    assert len(files) > 5
    found = {file.name: more for file in files if (more := list(known_of_sqlalchemy(file.read_text())))}
    assert found == {}


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_import_of_a_statement_class_is_found(name: str) -> None:
    assert list(known_of_sqlalchemy(f"from sqlalchemy import func, {name}")) == [f"sqlalchemy.{name}"]
