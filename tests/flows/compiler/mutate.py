"""Mutation testing of the laws and the scheduler: `python -m tests.flows.compiler.mutate [--sample N] [--seed S]`.

One small change at a time is made to the source (a comparison turned, a condition negated, a statement dropped, a
constant shifted), and the tests must notice. Text of messages and annotations is left alone. Each mutant runs in a
fork that already holds all heavy libraries, so that a thousand take minutes. Exit 1 where fewer than 85 % are noticed.
"""

import argparse
import ast
import copy
import importlib.util
import io
import json
import os
import random
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).resolve().parents[3]
TARGETS = (*sorted(ROOT.glob("flows/compiler/checks/*.py")), *(ROOT / "flows/compiler" / f"{name}.py" for name in (
    "schedule", "routing", "fanout", "triggers", "diagrams", "graph",
)))  # fmt: skip
TESTS = (
    "broken_files",
    "schedule",
    "valid_files",
    "parameters",
    "fanout",
    "files",
    "skips",
    "plan",
    "simulate",
    "properties",
)
WANTED = 0.85
SECONDS = 60

_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_SWAPPED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change to one file."""

    file: Path
    line: int
    change: str
    code: CodeType

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: {self.change}"


def mutants(file: Path) -> Iterator[Mutant]:
    """Every mutant of a file: node by node, each change on a fresh copy of the tree."""
    tree = ast.parse(file.read_text())
    quiet = _quiet(tree)
    for number, node in enumerate(ast.walk(tree)):
        for change in _changes(node) if id(node) not in quiet else ():
            fresh = copy.deepcopy(tree)
            target = next(each for at, each in enumerate(ast.walk(fresh)) if at == number)
            _apply(target, change)
            code = compile(ast.fix_missing_locations(fresh), str(file), "exec")
            yield Mutant(file, getattr(node, "lineno", 0), change, code)


def _quiet(tree: ast.Module) -> set[int]:
    """What is not mutated: annotations, type aliases, and what stands inside text."""
    quiet: set[int] = set()
    for node in ast.walk(tree):
        silent: list[ast.AST | None] = [node] if isinstance(node, ast.JoinedStr) else []
        silent += [getattr(node, field, None) for field in ("annotation", "returns")]
        for part in silent:
            quiet |= {id(each) for each in ast.walk(part)} if part is not None else set()
    return quiet


def _changes(node: ast.AST) -> Iterator[str]:
    """The changes that this node admits."""
    match node:
        case ast.Compare(ops=[operator]):
            yield f"{type(operator).__name__} -> {_TURNED[type(operator)].__name__}"
        case ast.BoolOp():
            yield from ("and <-> or", "drop the first operand")
        case ast.UnaryOp(op=ast.Not()):
            yield "drop not"
        case ast.If() | ast.IfExp() | ast.While():
            yield "negate the condition"
        case ast.BinOp(op=operator) if type(operator) in _SWAPPED:
            yield f"{type(operator).__name__} -> {_SWAPPED[type(operator)].__name__}"
        case ast.Constant(value=bool()):
            yield "True <-> False"
        case ast.Constant(value=int()):
            yield "count up"
        case ast.FunctionDef(body=[*_, _, last]) if not isinstance(last, ast.Return):
            yield "drop the last statement"
        case ast.Expr(value=ast.Yield() | ast.YieldFrom() | ast.Call()) | ast.AugAssign():
            yield "drop the statement"
        case ast.Return(value=ast.AST()):
            yield "return None"
        case ast.Continue() | ast.Break():
            yield "pass"
        case _:
            pass  # nothing to change in it


def _apply(node: ast.AST, change: str) -> None:
    match node:
        case ast.Compare():
            node.ops = [_TURNED[type(node.ops[0])]()]
        case ast.BoolOp() if change.startswith("drop"):
            node.values = node.values[1:] if len(node.values) > 2 else [node.values[1], node.values[1]]
        case ast.BoolOp():
            node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        case ast.UnaryOp():
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
        case ast.If() | ast.IfExp() | ast.While():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.BinOp():
            node.op = _SWAPPED[type(node.op)]()
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=int(value)):
            node.value = value + 1
        case ast.FunctionDef():
            node.body[-1] = ast.Pass()
        case ast.Return():
            node.value = ast.Constant(None)
        case _:
            _become_pass(node)


def _become_pass(node: ast.AST) -> None:
    node.__class__ = ast.Pass
    node.__dict__ = {key: value for key, value in node.__dict__.items() if key.endswith(("lineno", "col_offset"))}


def _unchanged() -> Mutant:
    """A control: a file as it is, by the same way."""
    return Mutant(TARGETS[0], 0, "nothing", compile(TARGETS[0].read_text(), str(TARGETS[0]), "exec"))


class _Finder:
    """Gives the mutant's code wherever its module is imported."""

    def __init__(self, mutant: Mutant) -> None:
        parts = mutant.file.relative_to(ROOT).with_suffix("").parts
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self.mutant = mutant

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.mutant.file, loader=_Loader(name, self.mutant))


class _Loader(SourceFileLoader):
    def __init__(self, name: str, mutant: Mutant) -> None:
        super().__init__(name, str(mutant.file))
        self.mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        return self.mutant.code


def noticed(chosen: Sequence[Mutant], jobs: int) -> list[bool]:
    """Whether the tests fail on each mutant, each in a fork of its own. A mutant that hangs is noticed too."""
    running: dict[int, int] = {}
    answers = [False] * len(chosen)
    for number, mutant in enumerate(chosen):
        if len(running) == jobs:
            _await_one(running, answers)
        running[_fork(mutant)] = number
    while running:
        _await_one(running, answers)
    return answers


def _fork(mutant: Mutant) -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        os._exit(_run_tests(mutant))
    return child


def _await_one(running: dict[int, int], answers: list[bool]) -> None:
    child, status = os.wait()
    answers[running.pop(child)] = os.waitstatus_to_exitcode(status) != 0


def _run_tests(mutant: Mutant) -> int:
    import pytest

    sys.meta_path.insert(0, _Finder(mutant))
    os.environ["CAIRN_TEST_EXAMPLES"] = "25"
    files = [str(ROOT / f"tests/flows/compiler/test_{name}.py") for name in TESTS]
    sink = io.StringIO()
    try:
        with redirect_stdout(sink), redirect_stderr(sink):
            return int(pytest.main(["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", *files]))
    except BaseException:  # noqa: BLE001 - whatever a mutant does to the runner, it was noticed
        return 1


def _load_heavy_libraries() -> None:
    import hypothesis
    import jinja2
    import jsonschema
    import pytest
    import yaml

    from flows.handlers.registry import registry

    registry()
    assert all((hypothesis, jinja2, jsonschema, pytest, yaml))
    assert not any(name.startswith("flows.compiler") for name in sys.modules)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--sample", type=int, default=0, help="run this many mutants, chosen by the seed; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="files whose path contains this")
    options = parser.parse_args()
    os.chdir(ROOT)
    _load_heavy_libraries()
    everything = [mutant for file in TARGETS if options.only in str(file) for mutant in mutants(file)]
    random.Random(options.seed).shuffle(everything)  # noqa: S311 - dice, not secrets
    chosen = everything[: options.sample] if options.sample else everything
    if noticed([_unchanged()], 1) != [False]:
        raise SystemExit("the tests fail without any mutation")
    answers = noticed(chosen, options.jobs)
    survivors = [str(mutant) for mutant, killed in zip(chosen, answers, strict=True) if not killed]
    score = sum(answers) / len(answers)
    answer = {"score": round(score, 4), "n": len(chosen), "of": len(everything), "seed": options.seed}
    sys.stdout.write("\n".join([*sorted(survivors), json.dumps(answer)]) + "\n")
    return 0 if score >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
