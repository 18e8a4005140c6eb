"""The room's walls: what the compiler imports, what a light process loads, which handlers are declared."""

import subprocess
import sys
from typing import Any

import pytest

from flows.handlers.context import Context
from flows.handlers.errors import PlannedHandler
from flows.handlers.registry import AnyHandler, registry
from flows.storage import Zones

HEAVY = ("prefect", "sqlalchemy", "rasterio", "osgeo", "pyogrio", "httpx", "requests", "urllib3", "aiohttp", "psycopg")
DECLARED = {
    "test": "echo hello_world sleep fail flaky_echo multi_phase size_check chunk_processor scripted",
    "raster": "blob_to_mount validate create_cog generate_tiling_scheme process_tile process_tile_batch mosaic "
    "stac_ensure_collection stac_register_item stac_register_items",
    "vector": "validate load_postgis load_chunk finalize stac_register_item",
    "export": "adf copy withdraw",
}
PLANNED = [handler for handler in registry().values() if handler.planned]


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter holds after the statement."""
    program = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_compiler_and_all_declarations_load_nothing_heavy() -> None:
    loaded = loaded_by(
        "import flows.compiler, flows.compiler.simulate; from flows.handlers.registry import registry; registry()"
    )
    assert "flows.handlers.vector.declarations" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_the_command_loads_the_compiler_only_when_used() -> None:
    loaded = loaded_by("import deployments.cli.workflow")
    assert "click" in loaded
    assert not any(name.startswith(("flows.compiler", "flows.handlers", "jinja2")) for name in loaded)


def test_every_handler_of_the_platform_is_declared() -> None:
    names = {
        verb if family == "test" else f"{family}.{verb}" for family, verbs in DECLARED.items() for verb in verbs.split()
    }
    assert sorted(names - set(registry())) == []


@pytest.mark.parametrize("handler", registry().values(), ids=lambda handler: handler.name)
def test_handler_declaration_is_complete(handler: AnyHandler) -> None:
    assert handler.summary.endswith(".")
    assert handler.timeout_seconds > 0
    assert handler.result.model_validate(handler.example.model_dump(mode="json")) == handler.example
    assert handler.params.model_json_schema()["type"] == "object"


@pytest.mark.parametrize("handler", PLANNED, ids=lambda handler: handler.name)
def test_calling_a_planned_handler_fails_with_that_reason(handler: AnyHandler, tmp_path: Any) -> None:
    context = Context("run", "node", Zones.local(tmp_path), tmp_path)
    with pytest.raises(PlannedHandler, match=f"{handler.name} is declared for authors but not written yet"):
        handler(handler.params.model_construct(), context)
