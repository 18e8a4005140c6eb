"""The page about the rooms says who may know what: held against what modules really import."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs/explanation/architecture.md").read_text()
ROOMS = ("flows", "blocks", "domain", "gateway", "deployments")
KNOWLEDGE = {
    "Prefect": {"prefect", "prefect_azure", "prefect_redis"},
    "SQL": {"psycopg", "asyncpg"},
    "GDAL and its kin": {"rasterio", "rio_cogeo", "rio_tiler", "pyogrio", "shapely", "pyarrow", "osgeo"},
    "FastAPI": {"fastapi", "starlette"},
    "Rich": {"rich"},
}
SPELT = {
    "SQL": re.compile(r"\bselect\b.*\bfrom\b", re.DOTALL)
}  # known too by who hands it to somebody else's connection


def places(knowledge: str) -> set[str]:
    """The files and folders that the page names in the row."""
    [row] = re.findall(rf"^\| {re.escape(knowledge)} \| (.*) \|$", PAGE, re.MULTILINE)
    return {place for written in re.findall(r"`([^`]+)`", row) for place in expanded(written)}


def expanded(written: str) -> Iterator[str]:
    """`a/{b,c}.py` is two places."""
    parts = [part.split(",") for part in re.split(r"\{([^}]*)\}", written)]
    return ("".join(chosen) for chosen in product(*parts))


@cache
def imports() -> dict[str, set[str]]:
    """What each file imports from outside, by its package."""
    files = (file for room in ROOMS for file in (REPOSITORY / room).rglob("*.py"))
    return {file.relative_to(REPOSITORY).as_posix(): set(_imported(ast.parse(file.read_text()))) for file in files}


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def within(file: str, place: str) -> bool:
    return file == place or (place.endswith("/") and file.startswith(place))


@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_every_importer_of_a_library_is_in_the_table(knowledge: str) -> None:
    knowing = {file for file, imported in imports().items() if imported & KNOWLEDGE[knowledge]}
    assert len(knowing) >= (1 if knowledge == "Rich" else 6)
    assert sorted(file for file in knowing if not any(within(file, place) for place in places(knowledge))) == []


@pytest.mark.parametrize("knowledge", KNOWLEDGE)
def test_every_place_in_the_table_uses_its_library(knowledge: str) -> None:
    def knows(file: str) -> bool:
        spelt = SPELT.get(knowledge)
        is_spelt = spelt is not None and spelt.search((REPOSITORY / file).read_text()) is not None
        return is_spelt or bool(
            imports()[file] & (KNOWLEDGE[knowledge] | {"sqlalchemy"} if spelt else KNOWLEDGE[knowledge])
        )

    named = places(knowledge)
    assert sorted(place for place in named if not any(within(file, place) and knows(file) for file in imports())) == []


def test_places_of_the_table_are_expanded_as_written() -> None:
    assert set(expanded("a/{b,c}.py")) == {"a/b.py", "a/c.py"}
    assert set(expanded("a/")) == {"a/"}
    assert not within("domain/apiary.py", "domain/api/")
