"""Inputs of a process become a submission of the platform, whatever stands around their values; nothing else passes."""

from typing import Any
from uuid import UUID

import pytest

from domain.contracts.offers import Offer
from domain.contracts.platforms import PlatformRow
from domain.rules.clearance import Identity
from gateway.errors import InvalidSubmission
from gateway.ogc.descriptions import description, parameter_names, serves
from gateway.ogc.execution import submission, unwrapped
from gateway.ogc.models import Execute
from tests.support import ogc_shapes

REQUEST = UUID(int=1)
CALLER = Identity("ddh-dev", "partner", "ddh")
DDH = PlatformRow(
    platform_id="ddh", required_refs=["dataset_id", "resource_id"], optional_refs=[], version_ref="version_id"
)
GIVEN = {"dataset_id": "a", "resource_id": "b", "version_id": "1", "source": "uploads/a.tif"}


def process(*names: str, data_type: str = "raster", operation: str = "ingest") -> Offer:
    inputs = [{"name": name, "required": False, "schema": {"type": "string"}} for name in ("source", *names)]
    return Offer(f"{data_type}_{operation}", data_type, operation, "A title", "What it does.", "2", inputs)


def made(asked: dict[str, Any], row: Offer | None = None, platform: PlatformRow = DDH) -> Any:
    wanted = Execute.model_validate({"inputs": GIVEN} | asked)
    return submission(wanted, row or process("target_crs"), platform, CALLER, REQUEST, "k")


def test_inputs_are_references_source_and_parameters() -> None:
    asked = {"inputs": GIVEN | {"target_crs": "EPSG:3857", "priority": "high"}}
    found = made(asked | {"subscriber": {"successUri": "https://ddh.test/hook"}})
    assert found.refs == {"dataset_id": "a", "resource_id": "b"}
    assert (found.version_label, found.source, found.parameters) == ("1", "uploads/a.tif", {"target_crs": "EPSG:3857"})
    assert (found.data_type, found.operation, found.priority) == ("raster", "ingest", "high")
    assert (found.callback_url, found.idempotency_key, found.request_id) == ("https://ddh.test/hook", "k", REQUEST)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("EPSG:3857", "EPSG:3857"),
        ({"value": "EPSG:3857"}, "EPSG:3857"),
        ({"value": "EPSG:3857", "mediaType": "text/plain"}, "EPSG:3857"),
        ({"value": {"value": 1}}, {"value": 1}),
        ({"href": "https://data.test/a.tif", "type": "image/tiff"}, "https://data.test/a.tif"),
        ({"bbox": [1, 2, 3, 4]}, [1, 2, 3, 4]),
        ({"a": 1}, {"a": 1}),
        ({"value": 1, "colour": 2}, {"value": 1, "colour": 2}),
        ([1, 2], [1, 2]),
        (None, None),
    ],
)
def test_input_value_is_unwrapped_from_every_standard_form(written: Any, meant: Any) -> None:
    assert unwrapped(written) == meant


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"inputs": GIVEN | {"colour": "red"}}, "'colour' is not an input of this process"),
        ({"inputs": GIVEN | {"data_type": "vector"}}, "'data_type' is not an input"),
        ({"inputs": GIVEN | {"flow_run_id": "1"}}, "'flow_run_id' is not an input"),
        ({"outputs": {"cog": {}}}, "'cog' is not an output of this process"),
        ({"subscriber": {"successUri": "https://a.test", "failedUri": "https://b.test"}}, "failedUri must be"),
        ({"inputs": {**GIVEN, "dataset_id": ""}}, "dataset_id:"),
        ({"inputs": {name: GIVEN[name] for name in GIVEN if name != "version_id"}}, "'version_id' is missing"),
        ({"inputs": GIVEN | {"target_crs": "a\x00b"}}, "'target_crs' holds what cannot be kept"),
        ({"inputs": GIVEN | {"target_crs": {"value": "\ud800"}}}, "holds what cannot be kept"),
        ({"inputs": {name: GIVEN[name] for name in GIVEN if name != "source"}}, "'source' is missing"),
        ({"inputs": {name: GIVEN[name] for name in GIVEN if name != "resource_id"}}, "'resource_id' is missing"),
    ],
)
def test_invalid_execution_request_is_refused_by_name(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSubmission) as refused:
        made(asked)
    assert says in refused.value.detail


def test_platforms_field_name_wins_over_a_workflows() -> None:
    row = process("version_id", "priority", "target_crs")
    assert parameter_names(row, DDH) == {
        "parameters.version_id": "version_id",
        "parameters.priority": "priority",
        "target_crs": "target_crs",
    }
    found = made({"inputs": GIVEN | {"parameters.version_id": "7"}}, row)
    assert (found.version_label, found.parameters) == ("1", {"version_id": "7"})


def test_field_fixed_by_the_platforms_mapping_is_no_input() -> None:
    mapping = {
        "resource_id": {"constant": "all"},
        "version_id": {"default": "first", "path": "v.label"},
        "data_type": {"constant": "raster"},
        "priority": {"constant": "low"},
    }
    fixed = PlatformRow.model_validate(DDH.model_dump() | {"field_mapping": mapping})
    assert serves(process(), fixed)
    assert not serves(process(data_type="vector"), fixed)
    inputs = description(process(), fixed, "http://x/ogc").inputs
    assert {name: one.min_occurs for name, one in inputs.items()} == {
        "dataset_id": 1,
        "version_id": 0,
        "source": 1,
        "priority": 0,
    }
    found = made({"inputs": {"dataset_id": "a", "source": "u/a.tif", "priority": "high"}}, process(), fixed)
    assert (found.refs, found.version_label) == ({"dataset_id": "a", "resource_id": "all"}, "first")
    assert found.priority == "low"


def test_process_description_has_the_shape_of_the_standard() -> None:
    told = description(process("target_crs"), DDH, "http://x/ogc").model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    assert ogc_shapes.faults(told, ogc_shapes.PROCESS) == []


@pytest.mark.parametrize(
    ("wrong", "shape"),
    [
        ({"id": "a", "version": "1", "inputs": {}, "outputs": {}, "colour": 1}, ogc_shapes.PROCESS),
        ({"id": "a", "version": "1", "inputs": {"a": {"schema": {"$ref": "#/x"}}}, "outputs": {}}, ogc_shapes.PROCESS),
        ({"links": [{"href": "/ogc/jobs"}]}, ogc_shapes.LANDING),
        ({"conformsTo": ["core"]}, ogc_shapes.CONFORMANCE),
        ({"jobID": "a", "status": "pending", "type": "process"}, ogc_shapes.STATUS),
        ({"jobID": "a", "status": "running", "type": "process", "created": "yesterday"}, ogc_shapes.STATUS),
        ({"outputs": {"cog": "a.tif"}}, ogc_shapes.RESULTS),
        ({"title": "without a type"}, ogc_shapes.EXCEPTION),
    ],
)
def test_shape_checks_find_unknown_members(wrong: dict[str, Any], shape: ogc_shapes.Shape) -> None:
    assert ogc_shapes.faults(wrong, shape)
