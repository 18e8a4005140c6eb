"""The golden corpus: every file under broken/ says in its head which faults it has, and where.

`# expect: CODE LINE:COLUMN` is one fault; a file without such a line has none. All files are compiled together, so
each also shows that no other hides it.
"""

import os
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from flows.compiler import CODES, Compilation, Fault, Input, compile_files, compile_text
from flows.compiler.interfaces import Sketch
from flows.compiler.report import report
from flows.handlers.registry import registry

BROKEN = Path(__file__).parent / "broken"
REPORT = BROKEN / "REPORT.txt"
FILES = sorted(path for path in BROKEN.rglob("*.yaml") if path.name != "empty.yaml")
SUB = Sketch({"amount": Input("amount", "number", required=True)}, {"total": 0})
_EXPECTATION = re.compile(r"^# expect: ([a-z-]+) (\d+):(\d+)$", re.MULTILINE)


def expected(path: Path) -> list[tuple[str, int, int]]:
    found = _EXPECTATION.findall(path.read_text())
    return sorted((code, int(line), int(column)) for code, line, column in found)


@cache
def compilations() -> dict[Path, Compilation]:
    return dict(zip(FILES, compile_files(FILES, registry()), strict=True))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_broken_file_has_exactly_its_expected_faults(path: Path) -> None:
    faults = compilations()[path].faults
    assert sorted((fault.code, fault.line, fault.column) for fault in faults) == expected(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_has_a_plan_or_faults(path: Path) -> None:
    compilation = compilations()[path]
    made = compilation.plan or compilation.request_plan
    assert bool(made) != bool(compilation.faults)


def test_every_message_says_what_is_wrong_and_what_would_be_right() -> None:
    for compilation in compilations().values():
        for fault in compilation.faults:
            assert fault.message, fault
            assert fault.hint, fault
            assert "\n" not in fault.message + fault.hint, fault


def test_fault_messages_equal_the_reviewed_ones() -> None:
    """Every message of the corpus, as authors see it. After a change, read REPORT.txt again: CAIRN_UPDATE_REPORT=1."""
    faults = [replace(fault, file=Path(fault.file).name) for path in FILES for fault in compilations()[path].faults]
    told = report(faults, {path.name: compilations()[path].text for path in FILES}, "text") + "\n"
    told = told.replace(str(BROKEN), "broken")
    if "CAIRN_UPDATE_REPORT" in os.environ:
        REPORT.write_text(told)
    assert told == REPORT.read_text()


def test_the_corpus_has_two_files_or_more_for_every_code() -> None:
    files = Counter(code for path in FILES for code in {code for code, _, _ in expected(path)})
    assert [code for code in CODES if files[code] < 2] == []
    assert sum(1 for path in FILES if expected(path)) >= 80


def test_empty_file_lacks_every_required_field_at_line_one() -> None:
    (compilation,) = compile_files([BROKEN / "empty.yaml"], registry())
    assert [(fault.code, fault.line, fault.column) for fault in compilation.faults] == [("missing-field", 1, 1)] * 3


def test_proposed_name_would_mend_the_fault() -> None:
    """Every `did you mean` of the corpus is followed, to the letter, and the fault is gone."""
    mended = 0
    for path in FILES:
        compilation = compilations()[path]
        for fault in compilation.faults:
            proposed = re.fullmatch(r"did you mean '(.+)'\?", fault.hint)
            wrong = re.findall(r"'([^']+)'", fault.message)
            if proposed and wrong:
                text = _replaced(compilation.text, fault, wrong[-1], proposed.group(1))
                siblings = {"sub": SUB}
                after = compile_text(text, fault.file, registry(), siblings).faults
                assert fault not in after, f"{path.name}: {fault}"
                mended += 1
    assert mended >= 25


def _replaced(text: str, fault: Fault, wrong: str, right: str) -> str:
    """The text with the first such word from the fault's place on replaced."""
    lines = text.split("\n")
    line, start = lines[fault.line - 1], fault.column - 1
    lines[fault.line - 1] = line[:start] + re.sub(rf"\b{re.escape(wrong)}\b", right, line[start:], count=1)
    return "\n".join(lines)
