"""Pools are named in their registry and by the handlers that run on them, in no other module."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.pools import POOLS

REPOSITORY = Path(__file__).resolve().parents[2]
ROOMS = ("flows", "blocks", "domain", "gateway", "deployments")
REGISTRY = "flows/pools.py"
DECLARATIONS, HISTORY = "flows/handlers/", "domain/migrations/versions/"
# Also within a longer text: a worker's name, an option's example, SQL. Prose says GDAL; `light-try` is no pool.
NAMED = re.compile(rf"(?<!\w)({'|'.join(POOLS)})(?![\w-])")


def names(source: str, *, declares: bool = False) -> Iterator[str]:
    """Each text in the module that names a pool; a declaration's `pool=` is spared where handlers are declared."""
    tree = ast.parse(source)
    spared = {id(text) for text in _docstrings(tree)} | ({id(text) for text in _declared(tree)} if declares else set())
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spared:
            yield from (f"line {node.lineno}: {node.value.strip()[:80]!r}" for _ in NAMED.findall(node.value)[:1])


def _docstrings(tree: ast.AST) -> Iterator[ast.expr]:
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))


def _declared(tree: ast.AST) -> Iterator[ast.expr]:
    """What `@handler(…, pool=…)` says."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "handler":
            yield from (given.value for given in node.keywords if given.arg == "pool")


def modules() -> Iterator[str]:
    files = (file.relative_to(REPOSITORY).as_posix() for room in ROOMS for file in (REPOSITORY / room).rglob("*.py"))
    return (file for file in files if file != REGISTRY and not file.startswith(HISTORY))


def test_no_module_but_the_registry_names_a_pool() -> None:
    found = {
        file: told
        for file in modules()
        if (told := [*names((REPOSITORY / file).read_text(), declares=file.startswith(DECLARATIONS))])
    }
    assert found == {}


def test_the_registry_itself_would_be_found() -> None:
    assert len([*modules()]) > 300
    assert len([*names((REPOSITORY / REGISTRY).read_text())]) >= len(POOLS)


@pytest.mark.parametrize(
    "source",
    ["if pool == 'gdal': pass", "name = f'worker-gdal:{tag}'", "ask('where pool = ''light''')", "x: Literal['light']",
     "LIMITS = 'gdal=8'", "click.Choice(['light'])"],
)  # fmt: skip
def test_a_pool_is_found_wherever_it_is_named(source: str) -> None:
    assert [*names(source)]
    assert [*names(source, declares=True)]


def test_declarations_docstrings_and_other_words_are_spared() -> None:
    declared = "@handler('a.b', pool='gdal', example=1)\ndef f(): ..."
    assert [*names(declared, declares=True)] == []
    assert [*names(declared)], "not where no handler is declared"
    assert [*names("def f():\n    'Runs on gdal.'\nname = 'light-try'; package = 'gdal-bin'; x = 'lightly'")] == []


def test_nobody_takes_an_entry_out_of_the_registry_to_compare_with() -> None:
    """`from flows.pools import …` brings the registry and its words; entries are asked for what they say."""
    brought = {
        name.name
        for file in modules()
        for node in ast.walk(ast.parse((REPOSITORY / file).read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "flows.pools"
        for name in node.names
    }
    assert brought <= {"POOLS", "WorkPool", "INLINE", "PROCESS", "SEGMENT_FLOW", "SHARED"}
