"""Whatever benchmarks and tests start ends with them: each process is tied to its parent, each stack has an owner."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = sorted(path for folder in ("benchmarks", "tests") for path in (REPOSITORY / folder).rglob("*.py"))
# What ties: our own prefix, and the cluster's command, which begins with the same.
TYING = {"tied", "server_command"}
LEFT, WAITED_FOR = {"Popen", "create_subprocess_exec"}, {"run", "check_output", "check_call"}
# A sleep within a try, which its zygote ends, and processes that are the very subject of a test.
SUBJECTS = {"tests/support/probes.py", "tests/deployments/test_supervisor.py"}


def untied(source: str, *, waited_for: bool = False) -> Iterator[int]:
    """Lines where a process is started that would outlive this one; those too that it waits for, if so asked."""
    tree = ast.parse(source)
    tied = {name for node in ast.walk(tree) for name in _given_tied_commands(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if _name(node.func) in LEFT or (waited_for and _is_waited_for(node.func)):
            command = node.args[0].value if isinstance(node.args[0], ast.Starred) else node.args[0]
            is_over = _is_waited_for(node.func) and _is_short(command)
            if not (is_over or _ties(command) or _name(command) in tied | {"command"} & _parameters(tree)):
                yield node.lineno
        if _name(node.func) == "ProcessPoolExecutor" and "end_with_parent" not in map(_name, node.args):
            yield node.lineno


def _is_waited_for(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and _name(function.value) == "subprocess" and function.attr in WAITED_FOR


def _is_short(command: ast.expr) -> bool:
    """A system's own command, written out: it ends by itself."""
    return isinstance(command, ast.List) and isinstance(command.elts[0], ast.Constant)


def _given_tied_commands(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Assign) and _ties(node.value):
        yield from map(_name, node.targets)


def _parameters(tree: ast.AST) -> set[str]:
    """Fields of classes that hold a command, such as the test cluster's: who makes them is looked at instead."""
    fields = (node.target for node in ast.walk(tree) if isinstance(node, ast.AnnAssign))
    return {_name(field) for field in fields}


def _ties(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and _name(value.func) in TYING


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def test_every_started_process_is_tied_to_its_parent() -> None:
    named = {str(path.relative_to(REPOSITORY)): path for path in FILES}
    found = {
        name: list(untied(path.read_text(), waited_for=name.startswith("benchmarks")))
        for name, path in named.items()
        if name not in SUBJECTS
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.Popen([sys.executable, '-m', 'prefect'])",
        "command = ['sleep', '60']; subprocess.Popen(command)",
        "await asyncio.create_subprocess_exec(*command)",
        "subprocess.Popen(['sleep', '60'])",
        "ProcessPoolExecutor(1)",
        "subprocess.run([*command, '--quiet'], check=True)",
    ],
)
def test_process_started_untied_is_found_by_its_line(line: str) -> None:
    source = f"async def start():\n    {line}"
    assert list(untied(source, waited_for=True)) == [2]
