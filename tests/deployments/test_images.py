"""What the Dockerfiles build, without Docker: each target's COPY and RUN steps, done in an empty folder.

In short, with each test run: the copied files import every flow or the service, by the packages of this environment.
With CAIRN_IMAGES=1 (`make images`) the installation too: a fresh environment, by the target's own `pip install`,
measured against the ceilings.
"""

import os
import shlex
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from deployments.cli.worker import DEFAULTS
from tests.support.prefect_server import REPOSITORY

# What git or .dockerignore keeps from an image's build, and a clone at work has.
NOT_COPIED = ("__pycache__", "node_modules", "vendor")
CEILING_MB = {"light": 500, "gdal": 2000}
# What each is above the mission's ceilings (50 for the gateway, 250 for services), docs/how-to/deploy.md says why.
SERVICES = {
    "domain": ("import domain.app, domain.loops.relay, deployments.stack.prepare", "domain", 320),
    "gateway": ("import gateway.app", "gateway", 130),
    "serving": ("import gateway.serving.app", "gateway", 420),
    "prefect": ("import prefect.server, deployments.event_stream, flows", "flows", 270),
}
LONG = pytest.mark.skipif(not os.environ.get("CAIRN_IMAGES"), reason="`make images` installs the images' packages")
EVERY_FLOW = """
from pathlib import Path
from flows import catalog
from flows.compiler import compile_files
from flows.handlers.registry import registry
files = sorted(Path("workflows").glob("*.yaml"))
assert files and not [fault for one in compile_files(files, registry()) for fault in one.faults]
print(*(catalog.flow(name).name for name in ["segment", *(file.stem for file in files)]))
"""
NO_GDAL = """
import importlib.util, sys
for name in ("rasterio", "rio_cogeo", "osgeo", "pyogrio"):
    assert importlib.util.find_spec(name) is None, name
"""
GDAL = "import flows.handlers.raster.cog, flows.handlers.raster.inspect, rasterio; print(rasterio.__gdal_version__)"


@dataclass(frozen=True)
class Stage:
    """One target with all that it builds on."""

    copies: list[list[str]]
    installs: list[list[str]]
    environment: dict[str, str]


def stage(target: str) -> Stage:
    steps: dict[str, list[tuple[str, str]]] = {}
    name = ""
    dockerfile = "Dockerfile" if target in SERVICES else "Dockerfile.worker"
    for line in (REPOSITORY / dockerfile).read_text().replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            steps[name] = list(steps.get(base, []))
        elif word and not word.startswith("#"):
            steps[name].append((word, rest))
    found = steps[target]
    return Stage(
        [shlex.split(rest) for word, rest in found if word == "COPY" and not rest.startswith("--from=")],
        [shlex.split(rest) for word, rest in found if word == "RUN" and rest.startswith("pip install")],
        dict(pair.split("=", 1) for word, rest in found if word == "ENV" for pair in shlex.split(rest)),
    )


def copied(target: str, folder: Path) -> Path:
    """The image's working directory after its COPY steps."""
    for *sources, destination in stage(target).copies:
        for source in sources:
            at = folder / destination
            if (REPOSITORY / source).is_dir():
                shutil.copytree(REPOSITORY / source, at, ignore=shutil.ignore_patterns(*NOT_COPIED))
            else:
                at = at / Path(source).name if destination.endswith("/") else at
                at.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(REPOSITORY / source, at)
    return folder


def run(folder: Path, python: Path | str, code: str) -> "subprocess.CompletedProcess[str]":
    """In that folder, with nothing of this clone on the path."""
    environment = {"PATH": os.environ["PATH"], "PREFECT_HOME": str(folder / ".prefect"), "PYTHONPATH": str(folder)}
    return subprocess.run(
        [str(python), "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def installed(target: str, folder: Path, place: Path) -> Path:
    """The target's own `pip install` steps, in an environment that has nothing yet; its Python."""
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    for install in stage(target).installs:
        arguments = [argument for argument in install[1:] if argument != "--no-cache-dir"]  # the cache spares downloads
        subprocess.run([str(python), "-m", "pip", *arguments, "--quiet"], cwd=folder, check=True)
    return python


def weighed(target: str, folder: Path) -> float:
    size_mb = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    print(f"\n{target}: {size_mb:.0f} MB of code and packages")  # noqa: T201
    return size_mb


@pytest.mark.parametrize("target", CEILING_MB)
def test_the_copied_files_import_every_flow(target: str, tmp_path: Path) -> None:
    folder = copied(target, tmp_path)
    done = run(folder, sys.executable, f"{EVERY_FLOW}\nimport flows; print(flows.__file__)")
    assert done.returncode == 0, done.stderr
    assert "raster_ingest" in done.stdout
    assert str(folder) in done.stdout  # not this clone's
    (folder / "flows" / "compiler" / "partition.py").unlink()
    assert run(folder, sys.executable, EVERY_FLOW).returncode != 0  # what is not copied is missed


@pytest.mark.parametrize("target", CEILING_MB)
def test_images_carry_the_workers_settings(target: str) -> None:
    """Those that a flow run needs too. What only the worker reads it sets itself, unless the image contradicts it."""
    needed = {name: value for name, value in DEFAULTS.items() if name != "PREFECT_WORKER_QUERY_SECONDS"}
    told = {"CAIRN_WORKFLOWS_DIR": "/srv/cairn/workflows", **needed}
    confined = {"CAIRN_TRY_CONFINEMENT": "required"} if target == "gdal" else {}
    assert stage(target).environment == told | confined


@LONG
@pytest.mark.parametrize("target", CEILING_MB)
def test_a_fresh_installation_holds_what_the_target_promises(target: str, tmp_path: Path) -> None:
    folder = copied(target, tmp_path / "srv")
    python = installed(target, folder, tmp_path / "venv")
    done = run(folder, python, f"{EVERY_FLOW}\n{NO_GDAL if target == 'light' else GDAL}")
    assert done.returncode == 0, done.stderr
    assert weighed(target, tmp_path) < CEILING_MB[target]


def test_each_target_installs_its_own_extra() -> None:
    for target in (*CEILING_MB, *SERVICES):
        packages, own = stage(target).installs
        extra = "prefect-server" if target == "prefect" else target
        assert (packages[-1], own[-1]) == (f"deployments/locked/{extra}.txt", ".")


@pytest.mark.parametrize("target", SERVICES)
def test_the_copied_files_import_the_service(target: str, tmp_path: Path) -> None:
    code, room, _ = SERVICES[target]
    folder = copied(target, tmp_path)
    done = run(folder, sys.executable, f"{code}\nprint({room}.__file__)")
    assert done.returncode == 0, done.stderr
    assert str(folder) in done.stdout  # not this clone's
    shutil.rmtree(folder / room)
    assert str(folder) not in run(folder, sys.executable, f"{code}\nprint({room}.__file__)").stdout


@LONG
@pytest.mark.parametrize("target", SERVICES)
def test_a_fresh_installation_runs_the_service(target: str, tmp_path: Path) -> None:
    code, _, ceiling_mb = SERVICES[target]
    folder = copied(target, tmp_path / "srv")
    python = installed(target, folder, tmp_path / "venv")
    done = run(folder, python, code)
    assert done.returncode == 0, done.stderr
    assert weighed(target, tmp_path) < ceiling_mb
