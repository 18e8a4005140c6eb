"""The pages for authors: every code is explained, every example is right."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from deployments.cli.workflow import workflow
from flows.compiler import CODES, compile_files
from flows.compiler.filters import FILTERS
from flows.compiler.inputs import TYPES
from flows.compiler.language import NODE_FIELDS, WORKFLOW_FIELDS
from flows.handlers.registry import registry

REFERENCE = Path("docs/reference/workflow-language.md").read_text()
HOW_TO = Path("docs/how-to/write-a-workflow.md").read_text()
WHOLE_FILES = [
    example
    for example in re.findall(r"```yaml\n(.*?)```", REFERENCE, re.DOTALL)
    if re.match(r"(workflow|plan)_id", example)
]


def test_every_code_type_filter_and_field_is_in_the_reference() -> None:
    words = set(re.findall(r"[A-Za-z_-]+", REFERENCE))
    fields = {*WORKFLOW_FIELDS, *(field for table in NODE_FIELDS.values() for field in table)}
    assert sorted({*CODES, *TYPES, *FILTERS, *NODE_FIELDS, *fields} - words) == []


@pytest.mark.parametrize("example", WHOLE_FILES)
def test_every_whole_example_has_no_fault(example: str, tmp_path: Path) -> None:
    (tmp_path / "echo_test.yaml").write_text(Path("workflows/echo_test.yaml").read_text())
    file = tmp_path / f"{example.split()[1]}.yaml"
    file.write_text(example)
    assert compile_files([file], registry())[0].faults == ()


def test_all_whole_examples_of_the_docs_are_found() -> None:
    assert len(WHOLE_FILES) == 3


def test_documented_commands_of_the_how_to_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the sections before publishing, which takes a running stack: `tests/e2e/test_publishing.py` has it."""
    monkeypatch.chdir(tmp_path)
    Path("told.json").write_text('{"first": {"echoed_params": {}}}')
    for command in re.findall(
        r"^\$ cairn workflow (.*?)(?: +#.*| +>.*)?$", HOW_TO.partition("\n## 9. Publish\n")[0], re.MULTILINE
    ):
        result = CliRunner().invoke(workflow, command.split())
        assert result.exit_code == (1 if command.endswith("--fail first") else 0), command + result.output
