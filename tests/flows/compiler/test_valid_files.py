"""No false alarms: files that use every feature, and those that ship, have no fault. Each gives a plan that keeps."""

import json
import pickle
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest

from flows.compiler import Compilation, Plan, RequestPlan, compile_files
from flows.compiler.language import NODE_FIELDS, WORKFLOW_FIELDS
from flows.compiler.simulate import World, simulate
from flows.handlers.registry import registry

VALID = Path(__file__).parent / "valid"
CORPUS = sorted(VALID.rglob("*.yaml"))
SHIPPED = sorted(Path("workflows").rglob("*.yaml"))
FILES = CORPUS + SHIPPED


@cache
def compilations() -> dict[Path, Compilation]:
    both = [*compile_files(CORPUS, registry()), *compile_files(SHIPPED, registry())]
    return dict(zip(FILES, both, strict=True))


def plans() -> dict[str, Plan]:
    return {found.plan.workflow_id: found.plan for found in compilations().values() if found.plan}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_valid_file_has_no_fault(path: Path) -> None:
    assert compilations()[path].faults == ()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_plan_survives_json_and_pickle(path: Path) -> None:
    compilation = compilations()[path]
    plan: Plan | RequestPlan | None = compilation.plan or compilation.request_plan
    assert plan is not None
    data = json.loads(json.dumps(plan.to_json(), sort_keys=True))
    assert type(plan).from_json(data) == plan
    assert pickle.loads(pickle.dumps(plan)) == deepcopy(plan) == plan  # noqa: S301 - our own plan


@pytest.mark.parametrize("name", sorted(plans()))
def test_plan_of_a_valid_file_simulates_to_its_end(name: str) -> None:
    plan = plans()[name]
    given = {"source": "a/b.tif", "needed": "x", "amount": 1, "artifacts": [{}], "external_blob_path": "a/b"}
    given |= {"destination": "a/b", "product": {}, "source_sha256": "0" * 64, "source_crs": "EPSG:4326"}
    inputs = {key: value for key, value in given.items() if key in plan.inputs}
    result = simulate(plan, inputs, World(registry(), plans()))
    assert result.error is None
    assert all(state.is_terminal for state in result.states.values())


def test_the_corpus_is_large_and_uses_every_field() -> None:
    assert len(CORPUS) >= 30
    text = "\n".join(path.read_text() for path in CORPUS)
    fields = {*WORKFLOW_FIELDS, *(field for table in NODE_FIELDS.values() for field in table)}
    assert [field for field in sorted(fields) if f"{field}:" not in text] == []


def test_every_shipped_file_begins_with_its_promises() -> None:
    assert [path.name for path in SHIPPED if not path.read_text().startswith("# Promises: ")] == []


def test_every_expected_workflow_ships() -> None:
    names = {path.stem for path in SHIPPED}
    assert names >= {
        "adf_export",
        "create_stac_item",
        "echo_test",
        "hello_world",
        "process_raster",
        "raster_ingest",
        "raster_tiled",
        "retry_fan_out_test",
        "retry_test",
        "validate_dataset",
        "vector_ingest",
        "withdraw_external",
    }
    accepted = [found.request_plan.accepted_pairs() for found in compilations().values() if found.request_plan]
    assert (("raster", "ingest_staged"),) in accepted
