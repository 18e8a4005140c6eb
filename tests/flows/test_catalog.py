"""The flows by name, in a process that lives longer than their files stay as they are."""

from pathlib import Path

import pytest

from flows import catalog

WORKFLOW = """
workflow_id: form
version: 1
inputs: {%s: {type: integer, default: 1}}
nodes:
  start: {type: start, next: end}
  end: {type: end}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(catalog, "WORKFLOWS", tmp_path)
    file = tmp_path / "form.yaml"
    file.write_text(WORKFLOW % "first")
    return file


def form() -> set[str]:
    return set(catalog.form.parameters.properties) - {"run_id", "attempt_token"}


def test_flow_of_an_unchanged_file_is_built_once(file: Path) -> None:
    assert catalog.form is catalog.form
    assert catalog.segment is catalog.segment


def test_changed_file_gives_another_parameter_form(file: Path) -> None:
    assert form() == {"first"}
    file.write_text(WORKFLOW % "another")
    assert form() == {"another"}
    file.write_text("nodes: [")  # as while it is being written
    assert set(catalog.form.parameters.properties) == {"run_id", "attempt_token"}
    file.write_text(WORKFLOW % "third")
    assert form() == {"third"}
    file.unlink()
    with pytest.raises(AttributeError, match="no workflow 'form'"):
        _ = catalog.form
