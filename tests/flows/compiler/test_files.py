"""Files that know each other: sub-workflows in folders, ids and submissions that clash, files that cannot be read."""

from pathlib import Path
from typing import Any

import pytest

from flows.compiler import compile_files
from flows.handlers.registry import registry

EMPTY = "version: 1\nnodes: {start: {type: start, next: end}, end: {type: end}}\n"
RUNS = """workflow_id: outer
version: 1
nodes:
  start: {type: start, next: a}
  a: {type: workflow, workflow: inner, inputs: {n: 1}, next: b}
  b: {handler: echo, params: {x: "{{ nodes.a.output.total }}"}, next: end}
  end: {type: end}
"""
INNER = f"workflow_id: inner\ninputs: {{n: {{type: integer}}}}\noutputs: {{total: 1}}\n{EMPTY}"


def codes(*files: Path) -> list[list[str]]:
    return [[fault.code for fault in found.faults] for found in compile_files(files, registry())]


def test_a_sub_workflow_is_found_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "outer.yaml").write_text(RUNS)
    assert codes(tmp_path / "outer.yaml") == [["unknown-workflow"]]
    (tmp_path / "inner.yml").write_text(INNER)
    (tmp_path / "notes.txt").write_text("workflow_id: inner2")
    (tmp_path / "folder.yaml").mkdir()
    assert codes(tmp_path / "outer.yaml") == [[]]


def test_a_sub_workflow_is_found_among_the_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "outer.yaml").write_text(RUNS)
    (tmp_path / "a" / "inner.yaml").write_text(INNER)
    assert codes(tmp_path / "a" / "inner.yaml", tmp_path / "outer.yaml") == [[], []]


def test_a_broken_sub_workflow_is_known_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "outer.yaml").write_text(RUNS)
    (tmp_path / "inner.yaml").write_text(INNER.replace("version: 1", "version: 1\nnope: 1"))
    assert codes(tmp_path / "outer.yaml", tmp_path / "inner.yaml") == [[], ["unknown-field"]]
    (tmp_path / "inner.yaml").write_text("{")
    assert codes(tmp_path / "outer.yaml", tmp_path / "inner.yaml") == [["unknown-workflow"], ["yaml-syntax"]]


def test_sub_workflow_of_a_plan_is_found_one_folder_up(tmp_path: Path) -> None:
    (tmp_path / "plans").mkdir()
    (tmp_path / "inner.yaml").write_text(INNER)
    plan = tmp_path / "plans" / "both.yaml"
    plan.write_text('plan_id: both\nsteps: [{id: a, workflow: inner}]\noutputs: {t: "{{ steps.a.outputs.total }}"}\n')
    assert codes(plan) == [[]]


def test_second_file_with_the_same_id_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for folder in (tmp_path, tmp_path / "other"):
        (folder / "same.yaml").write_text(f"workflow_id: same\n{EMPTY}")
    _, second = compile_files([tmp_path / "same.yaml", tmp_path / "other" / "same.yaml"], registry())
    (fault,) = second.faults
    assert (fault.code, fault.line, fault.column) == ("bad-workflow-id", 1, 14)
    assert str(tmp_path / "same.yaml") in fault.message


def test_plan_and_workflow_for_the_same_submission_are_a_fault(tmp_path: Path) -> None:
    accepts = "accepts: {data_type: [raster], operation: [x]}\n"
    (tmp_path / "inner.yaml").write_text(accepts + INNER)
    (tmp_path / "both.yaml").write_text(f"plan_id: both\n{accepts}steps: [{{id: a, workflow: inner}}]\n")
    assert codes(tmp_path / "inner.yaml", tmp_path / "both.yaml") == [[], ["duplicate-accepts"]]


def test_unreadable_file_raises_to_the_caller(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        compile_files([tmp_path / "gone.yaml"], registry())


def test_unreadable_neighbour_stays_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outer.yaml").write_text(RUNS)
    (tmp_path / "inner.yaml").write_text(INNER)
    opened = Path.open

    def closed(path: Path, *args: Any, **options: Any) -> Any:
        if path.name == "inner.yaml":
            raise PermissionError(path)
        return opened(path, *args, **options)

    monkeypatch.setattr(Path, "open", closed)
    assert codes(tmp_path / "outer.yaml") == [["unknown-workflow"]]


def test_digest_ignores_formatting_and_comments(tmp_path: Path) -> None:
    file = tmp_path / "inner.yaml"
    digests = []
    for text in (
        INNER,
        f"# comment\n{EMPTY}outputs: {{total:   1}}\nworkflow_id: 'inner'\ninputs:\n  n:\n    type: integer\n",
    ):
        file.write_text(text)
        (found,) = compile_files([file], registry())
        assert found.plan is not None
        digests.append(found.plan.digest)
    file.write_text(INNER.replace("total: 1", "total: 2"))
    (changed,) = compile_files([file], registry())
    assert changed.plan is not None
    assert digests[0] == digests[1] != changed.plan.digest
    assert len(digests[0]) == 64
