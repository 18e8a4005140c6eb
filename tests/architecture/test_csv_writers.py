"""All CSV that leaves is written by one module: nobody beside it writes any, and no library of an application does."""

import ast
import csv
import sys
from pathlib import Path

from domain.app import create_app as create_domain
from domain.rules import csv_text
from gateway.app import create_app as create_gateway
from gateway.serving.app import create_app as create_serving

REPOSITORY = Path(__file__).resolve().parents[2]
ROOMS = ("flows", "blocks", "domain", "gateway", "deployments")
THE_WRITER = "domain/rules/csv_text.py"
# What answers could be made with. Others of our libraries know CSV for what they read, or for the command line.
LIBRARIES = ("fastapi", "starlette", "tipg", "titiler", "stac_fastapi", "stac_pydantic", "rio_tiler", "pypgstac")
APPLICATIONS = (create_domain, create_gateway, create_serving)  # loaded, and with them their libraries
# Writers of theirs, each with what stands in its place here.
REPLACED = {"tipg.factory": ("create_csv_rows", csv_text.lines)}


def writes(source: str) -> bool:
    """Whether a module could write CSV: by the standard library, or by a table's own method."""
    nodes = list(ast.walk(ast.parse(source)))
    imported = {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    methods = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return "csv" in imported or bool(methods & {"to_csv", "write_csv"})


def test_only_one_module_writes_csv() -> None:
    files = (file for room in ROOMS for file in (REPOSITORY / room).rglob("*.py"))
    found = {file.relative_to(REPOSITORY).as_posix() for file in files if writes(file.read_text())}
    assert found == {THE_WRITER}


def test_csv_writers_are_recognised_in_source() -> None:
    for source in ("import csv", "import io, csv", "from csv import writer", "table.to_csv(x)", "pa.csv.write_csv(t)"):
        assert writes(source), source
    assert not writes("import csvs\nf = 'text/csv'")


def test_every_csv_writer_of_a_library_is_replaced() -> None:
    """By the modules that are loaded once all three applications are."""
    loaded = {
        name
        for name, module in sys.modules.items()
        if name.partition(".")[0] in LIBRARIES and getattr(module, "csv", None) is csv
    }
    assert loaded == set(REPLACED)
    for module, (name, ours) in REPLACED.items():
        assert getattr(sys.modules[module], name) is ours
