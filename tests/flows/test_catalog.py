"""The flows by name, in a process that lives longer than their files stay as they are."""

from pathlib import Path
from typing import Any

import pytest
from prefect.utilities.callables import call_with_parameters, parameter_schema

from deployments.stack.state import REPOSITORY
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
    return set(catalog.form.parameters.properties)


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


@pytest.mark.parametrize("name", sorted(file.stem for file in (REPOSITORY / "workflows").glob("*.yaml")))
def test_form_of_shipped_workflow_says_what_its_inputs_say(name: str) -> None:
    """As `prefect deploy` makes it: required, types, bounds, defaults and descriptions are theirs, nothing is ours."""
    declared, form = catalog.plan_of(name).inputs, parameter_schema(catalog.flow(name))
    assert set(form.properties) == set(declared)
    assert form.required == [each.name for each in declared.values() if each.required]
    for each in declared.values():
        shown, said = form.properties[each.name], each.schema()
        assert shown["description"] == (each.description or each.name)
        assert shown.get("default") == said.get("default")
        for one in shown.get("anyOf", [shown])[:1]:
            assert {key: one[key] for key in said.keys() - {"default", "description"}} == {
                key: value for key, value in said.items() if key not in {"default", "description"}
            }
        assert ("anyOf" in shown) == (not each.required and not each.has_default)


def test_flow_is_called_without_the_required_inputs_of_its_form(file: Path) -> None:
    """A run of the domain brings a run id and a token alone."""
    file.write_text(WORKFLOW.replace("default: 1", "required: true") % "needed")
    assert catalog.form.parameters.required == ["needed"]
    for brought in ({"run_id": "r", "attempt_token": "t"}, {"needed": 1}):
        call: Any = call_with_parameters(catalog.form.fn, brought)
        call.close()
