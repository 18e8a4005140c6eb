"""The `workflow` command: what it prints, and how it exits."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from deployments.cli.workflow import workflow

GOOD = """workflow_id: good
version: 1
inputs: {n: {type: integer, default: 1}}
nodes:
  start: {type: start, next: a}
  a: {handler: echo, params: {x: "{{ inputs.n }}"}, next: b}
  b: {handler: echo, params: {y: "{{ nodes.a.output.echoed_params }}"}, retry: {max_attempts: 1}, next: end}
  end: {type: end}
outputs: {y: "{{ nodes.b.output.echoed_params }}"}
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(workflow, [str(argument) for argument in arguments])


@pytest.fixture(name="good")
def _good(tmp_path: Path) -> Path:
    file = tmp_path / "good.yaml"
    file.write_text(GOOD)
    return file


@pytest.fixture(name="bad")
def _bad(tmp_path: Path) -> Path:
    file = tmp_path / "bad.yaml"
    file.write_text(GOOD.replace("workflow_id: good", "workflow_id: bad").replace("handler: echo", "handler: ecko", 1))
    return file


def test_validate_reports_every_file(good: Path, bad: Path) -> None:
    clean = run("validate", good)
    assert (clean.exit_code, clean.stdout) == (0, "1 file, no faults\n")
    told = run("validate", good.parent)
    assert told.exit_code == 1
    assert f"{bad}:6:16: unknown-handler: there is no handler 'ecko'" in told.stdout
    assert "\n    |                ^\n" in told.stdout
    assert "did you mean 'echo'?" in told.stdout
    assert told.stderr == "2 files, 1 fault\n"


@pytest.mark.parametrize("flags", [["--json"], ["--format", "json"]])
def test_validate_with_json_prints_faults_for_programs(bad: Path, good: Path, flags: list[str]) -> None:
    told = run("validate", bad, good, *flags)
    (fault,) = json.loads(told.stdout)
    assert set(fault) == {"file", "line", "column", "code", "message", "pointer", "hint"}
    assert (fault["code"], fault["line"], fault["column"], fault["pointer"]) == (
        "unknown-handler",
        6,
        16,
        "/nodes/a/handler",
    )
    assert json.loads(run("validate", good, *flags).stdout) == []


def test_validate_with_format_github_prints_annotations(bad: Path) -> None:
    told = run("validate", bad, "--format", "github")
    assert told.stdout.startswith(f"::error file={bad},line=6,col=16,title=unknown-handler::")
    assert run("validate", bad, "--format", "github").exit_code == 1


def test_validate_without_paths_looks_at_the_shipped_workflows() -> None:
    assert run("validate").exit_code == 0


def test_an_unreadable_file_hides_no_other(bad: Path, tmp_path: Path) -> None:
    told = run("validate", tmp_path / "gone.yaml", bad)
    assert told.exit_code == 2
    assert "unknown-handler" in told.stdout
    assert "gone.yaml: cannot read: No such file or directory" in told.stderr


def test_validate_of_a_folder_without_workflows_exits_with_2(tmp_path: Path) -> None:
    told = run("validate", tmp_path)
    assert (told.exit_code, told.stderr.splitlines()[0]) == (2, "no workflow files there")


@pytest.mark.parametrize(("style", "start"), [("mermaid", "flowchart TD"), ("dot", "digraph"), ("svg", "<svg ")])
def test_graph_prints_the_drawing_in_the_asked_format(good: Path, style: str, start: str) -> None:
    assert run("graph", good, "--format", style).stdout.startswith(start)
    assert json.loads(run("graph", good, "--format", style, "--json").stdout)["graph"].startswith(start)


@pytest.mark.parametrize("verb", ["graph", "show", "simulate"])
def test_a_broken_file_is_reported_by_every_verb(bad: Path, tmp_path: Path, verb: str) -> None:
    told = run(verb, bad)
    assert told.exit_code == 1
    assert "unknown-handler" in told.stderr
    assert told.stdout == ""
    assert run(verb, tmp_path / "gone.yaml").exit_code == 2
    assert run(verb, "workflows/plans/raster_ingest_staged.yaml").exit_code == 2


def test_show_prints_nodes_as_a_table_or_json(good: Path) -> None:
    told = run("show", good).stdout.splitlines()
    assert told[0].startswith("good version 1 (offline)  sha256:")
    assert told[1].split() == ["NODE", "TYPE", "RUNS", "POOL", "TIMEOUT", "RETRIES", "AFTER"]
    assert told[3].split() == ["a", "task", "echo", "light", "60", "s", "3", "start"]
    assert json.loads(run("show", good, "--json").stdout)["workflow_id"] == "good"


def simulated(*arguments: object) -> dict[str, Any]:
    return dict(json.loads(run("simulate", *arguments, "--json").stdout))


def test_simulate_prints_trace_and_outputs(good: Path, tmp_path: Path) -> None:
    told = run("simulate", good, "--inputs", "n=5")
    assert told.exit_code == 0
    assert "params={'x': 5}" in told.stdout
    assert told.stdout.splitlines()[-1] == 'completed: {"y": {"message": "hello"}}'
    fixtures = tmp_path / "fixtures.json"
    fixtures.write_text('{"b": {"echoed_params": 7}}')
    assert simulated(good, "--fixtures", fixtures)["outputs"] == {"y": 7}
    assert simulated(good, "n=2", "-i", "n=3")["outputs"] == {"y": {"message": "hello"}}


def test_simulate_with_failures_retries_or_fails(good: Path) -> None:
    assert simulated(good, "--fail", "b:1")["outputs"] == {"y": {"message": "hello"}}
    failed = run("simulate", good, "--fail", "b")
    assert failed.exit_code == 1
    assert failed.stdout.splitlines()[-1] == "failed: failed as asked"


def test_simulate_of_a_part_covers_the_selected_nodes(good: Path) -> None:
    assert set(simulated(good, "--only", "a, b")["states"]) == {"a", "b"}
    assert set(simulated(good, "--from", "b")["states"]) == {"b", "end"}


def test_simulate_finds_sub_workflows_beside_the_file() -> None:
    told = run("simulate", Path(__file__).parent / "valid" / "sub_workflow.yaml")
    assert told.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-i", "n"], "'n' is not k=v"),
        (["-i", "n=x"], "n: must be a whole number, not 'x'"),
        (["-i", "m=1"], "is not an input"),
        (["--fail", "a:x"], "'a:x' is not NODE or NODE:N"),
        (["--only", "c"], "there is no node 'c'"),
        (["--fixtures", "gone.json"], "cannot read fixtures"),
        (["--fixtures", "pyproject.toml"], "cannot read fixtures"),
        (["--fixtures", "constraints.txt"], "a mapping from node ids"),
    ],
)
def test_simulate_with_wrong_arguments_exits_with_2_and_the_reason(
    good: Path, arguments: list[str], reason: str
) -> None:
    told = run("simulate", good, *arguments)
    assert told.exit_code == 2
    assert reason in " ".join(told.stderr.split())


def test_new_writes_a_file_that_validates(tmp_path: Path) -> None:
    told = run("new", "my_first", "--folder", tmp_path / "made")
    assert told.exit_code == 0
    file = tmp_path / "made" / "my_first.yaml"
    assert str(file) in told.stdout
    assert run("validate", file).exit_code == 0
    assert run("simulate", file).exit_code == 0
    again = run("new", "my_first", "--folder", tmp_path / "made")
    assert (again.exit_code, "File exists" in again.stderr) == (2, True)
    assert json.loads(run("new", "other", "--folder", tmp_path, "--json").stdout) == {
        "file": str(tmp_path / "other.yaml")
    }
    assert "is not a workflow_id" in run("new", "My-First").stderr


def test_the_schema_accepts_every_valid_file_and_refuses_slips() -> None:
    import yaml

    schema = json.loads(run("schema", "--json").stdout)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    files = [*Path("workflows").rglob("*.yaml"), *(Path(__file__).parent / "valid").rglob("*.yaml")]
    for file in files:
        if file.stem in ("core_schema", "ids_like_words"):
            continue  # read by YAML 1.1 here, they hold other values
        document = yaml.load(file.read_text(), _TextDates)  # noqa: S506 - a safe loader without dates
        assert [error.message for error in validator.iter_errors(document)] == [], file.name
    for slip in (GOOD.replace("next: b", "nxt: b"), GOOD.replace("version: 1\n", ""), GOOD.replace("start,", "strt,")):
        assert list(validator.iter_errors(yaml.safe_load(slip)))
    assert "description" in json.dumps(schema["$defs"]["task_node"]["properties"]["timeout_seconds"])
    assert run("schema").stdout.startswith("{\n  ")


def _text_dates() -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """Dates stay text, as the language has it."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader


_TextDates = _text_dates()
