"""What a partner may write into a parameter: no CRS but a code, no name but a blob's, nothing GDAL would follow."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from flows.compiler import Plan, compile_files
from flows.compiler.inputs import InputFault, resolve_inputs
from flows.handlers.errors import InvalidInput
from flows.handlers.registry import AnyHandler, registry
from flows.storage import Zones
from tests.domain.rules.test_sources import NEVER

WORKFLOWS = Path(__file__).resolve().parents[4] / "workflows"
NOT_A_CODE = [
    *("http://attacker.example/x.prj", "https://attacker.example/x.prj", "/vsicurl/http://attacker.example/x.prj"),
    *("x.prj", "/etc/passwd", "+proj=utm +zone=33 +nadgrids=/etc/passwd", "+init=epsg:4326", "+init=/etc/passwd:1"),
    *("init=epsg:4326", "+proj=pipeline +step +proj=hgridshift +grids=/etc/passwd", "urn:ogc:def:crs:EPSG::4326"),
    *("AUTO:42001,9,50", "WGS84", 'GEOGCS["WGS 84",EXTENSION["PROJ4","+nadgrids=/etc/passwd"]]', "ESRI:102100"),
    *(
        "OGC:CRS84",
        "IGNF:LAMB93",
        "4326",
        "epsg:4326",
        "EPSG:4326+5773",
        "EPSG:4326\n",
        " EPSG:4326",
        "EPSG:",
        "EPSG:1",
    ),
    *("EPSG:1234567", "EPSG:４３２６", "", "{}"),
]


def crs_parameters() -> list[tuple[AnyHandler, str]]:
    """Every parameter of every handler that names a CRS."""
    return [(one, name) for one in registry().values() for name in one.params.model_fields if name.endswith("crs")]


@pytest.mark.parametrize(("handler", "name"), crs_parameters(), ids=lambda value: getattr(value, "name", value))
def test_a_handler_takes_a_crs_by_its_code_alone(handler: AnyHandler, name: str) -> None:
    field = handler.params.model_fields[name]
    taken = TypeAdapter(field.rebuild_annotation())
    assert taken.validate_python("EPSG:4326") == "EPSG:4326"
    for definition in NOT_A_CODE:
        with pytest.raises(ValidationError):
            taken.validate_python(definition)


def test_handlers_with_crs_parameters_are_found() -> None:
    assert len(crs_parameters()) >= 4


@pytest.mark.parametrize("path", sorted(WORKFLOWS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_workflow_takes_a_crs_by_its_code_alone(path: Path) -> None:
    [plan] = [one.plan for one in compile_files([path], registry())]
    assert isinstance(plan, Plan)
    for name, declared in plan.inputs.items():
        if not name.endswith("crs"):
            continue
        assert resolve_inputs({name: declared}, {name: "EPSG:4326"})[name] == "EPSG:4326"
        for definition in NOT_A_CODE:
            if definition == "EPSG:4326\n":
                continue  # `$` of a pattern allows one line's end; the handler does not
            with pytest.raises(InputFault):
                resolve_inputs({name: declared}, {name: definition})


@pytest.mark.parametrize("name", NEVER)
def test_storage_refuses_every_name_that_gdal_would_follow(name: str, tmp_path: Path) -> None:
    """Also where a name comes from elsewhere than a submission."""
    store = Zones.local(tmp_path).bronze
    for reach in (store.readable_path, store.size_bytes, store.read_bytes, lambda given: list(store.chunks(given))):
        with pytest.raises(InvalidInput, match="is not a blob name"):
            reach(name)
