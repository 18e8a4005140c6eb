"""Rooms that are deployed without GDAL load none of it, and importing any module opens no connection."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
HEAVY = ("rasterio", "rio_cogeo", "rio_tiler", "pyogrio", "pyarrow", "shapely", "osgeo", "titiler")
LIGHT_ROOMS = {
    "domain": "import domain.app, domain.loops.relay",
    "gateway": "import gateway.app",
    "light worker": "from flows import catalog; catalog.flow('hello_world'); "
    "import flows.handlers.stac.staging, flows.handlers.vector.load, flows.handlers.vector.stac; "
    "import deployments.workers.serve, deployments.workers.inline",
    "compiler": "import flows.compiler, flows.handlers.registry as r; r.registry()",
    "command line": "from deployments.cli import VERBS, cairn; [cairn.get_command(None, verb) for verb in VERBS]",
}
LOADED = "import json, sys; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
WATCH_CONNECTIONS = """
import sys
def forbid(event, arguments):
    if event == "socket.connect":
        raise SystemExit(f"a connection was opened at import: {arguments[1]}")
sys.addaudithook(forbid)
"""


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def loaded_by(code: str) -> frozenset[str]:
    """The packages that an interpreter of its own has loaded once it has run this. One serves several tests."""
    return frozenset(json.loads(python(f"{code}\n{LOADED}").splitlines()[-1]))


@pytest.mark.parametrize("room", LIGHT_ROOMS)
def test_a_light_room_loads_no_gdal(room: str) -> None:
    assert loaded_by(LIGHT_ROOMS[room]).isdisjoint(HEAVY)


@pytest.mark.parametrize("room", LIGHT_ROOMS)
def test_light_room_without_an_account_loads_nothing_of_azure(room: str) -> None:
    assert [name for name in loaded_by(LIGHT_ROOMS[room]) if name.startswith("azure")] == []


def test_check_finds_gdal_where_it_is_loaded() -> None:
    assert "rasterio" in loaded_by("import flows.handlers.raster.inspect")


def test_the_gateway_loads_neither_prefect_nor_sqlalchemy() -> None:
    assert loaded_by(LIGHT_ROOMS["gateway"]).isdisjoint({"prefect", "sqlalchemy"})


def modules() -> list[str]:
    files = [
        path for room in ("flows", "blocks", "domain", "gateway", "deployments") for path in Path(room).rglob("*.py")
    ]
    names = [str(path.with_suffix("")).replace("/", ".").removesuffix(".__init__") for path in files]
    run_by_hand = (".__main__", "migrations.env")
    return sorted(name for name in names if not name.endswith(run_by_hand) and ".versions." not in name)


def test_importing_any_module_opens_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    imports = "\n".join(f"import {name}" for name in modules())
    assert len(modules()) > 80
    python(f"{WATCH_CONNECTIONS}\n{imports}")


def test_connection_watch_finds_an_opened_connection() -> None:
    code = f"{WATCH_CONNECTIONS}\nimport socket\nsocket.create_connection(('127.0.0.1', 9))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "a connection was opened at import" in done.stderr


def test_help_is_printed_without_loading_what_verbs_need() -> None:
    loaded = loaded_by("from deployments.cli import cairn\ncairn(['--help'], standalone_mode=False)")
    assert loaded.isdisjoint({"prefect", "fastapi", "sqlalchemy", "psycopg", "httpx", "rich", "pydantic"})
