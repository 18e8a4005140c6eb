"""Files that share a server go to one process when tests run side by side: else each process would start its own."""

import ast
import re
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.support.side_by_side import ROLLOUTS, SHORT_OF_PATIENCE, STACK, TOGETHER, WORKERS, unit_of

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = {
    "shared_stack": STACK,
    "on_shared_stack": STACK,
    "impatient_stack": SHORT_OF_PATIENCE,
    "prefect_server": ROLLOUTS,
    "workers_prefect": WORKERS,
}


def asked_for(file: Path) -> set[str]:
    """The shared servers that a file's tests and fixtures name: as a parameter, or by `usefixtures`."""
    source = file.read_text()
    if file.parent.name != "e2e" and not any(name in source for name in SHARED):
        return set()
    words = {argument.arg for node in ast.parse(source).body if _is_given(node) for argument in node.args.args}
    words |= {name for names in re.findall(r"usefixtures\((.*?)\)", source) for name in re.findall(r"\w+", names)}
    # What stories call their stack, unless they have one of their own.
    if file.parent.name == "e2e" and "stack" in words and not re.search(r"^def stack\(", source, re.MULTILINE):
        words.add("shared_stack")
    return {SHARED[word] for word in words & SHARED.keys()}


def _is_given(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Whether pytest fills its parameters."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return node.name.startswith("test_") or any("pytest.fixture" in ast.unparse(one) for one in node.decorator_list)


def test_files_that_share_a_server_are_listed_under_it() -> None:
    files = [file for file in (REPOSITORY / "tests").rglob("test_*.py") if asked_for(file)]
    assert len(files) > 15
    for file in files:
        name = str(file.relative_to(REPOSITORY))
        units = {unit for named, unit in TOGETHER.items() if named.partition("::")[0] == name}
        assert units == asked_for(file), name


@pytest.mark.parametrize("named", TOGETHER)
def test_listed_file_or_test_exists(named: str) -> None:
    file, _, test = named.partition("::")
    assert (f"def {test}(" if test else "def test_") in (REPOSITORY / file).read_text()


def test_unlisted_test_is_handed_out_with_its_file() -> None:
    assert unit_of("tests/e2e/test_path.py::test_a_raster[11]") == STACK
    assert unit_of("tests/e2e/test_stack.py::test_a_killed_benchmark_leaves_no_process[a]") == "tests/e2e/test_stack.py"
