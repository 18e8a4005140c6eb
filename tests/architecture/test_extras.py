"""Extras keep images honest: each room runs with what its extra installs, and with nothing else.

Every distribution outside the extra's closure is made unimportable, as if it were not installed.
"""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]
OURS = "cairn-platform"
# Zones in a storage account: the client is made, and nothing asked.
AZURE = "from flows.storage.account import Account; Account(url='https://a.blob.core.windows.net').client"
# What each image runs; see Dockerfile and Dockerfile.worker.
ROOMS = {
    "gateway": "import gateway.app",
    "functions": "import gateway.function_app",
    "domain": "import domain.app, domain.relay, domain.migrations, flows.compiler, deployments.stack.prepare\n" + AZURE,
    "light": "from flows import catalog; catalog.flow('hello_world'); catalog.flow('segment')\n"
    "import flows.handlers.stac.staging, flows.handlers.vector.load, flows.handlers.vector.stac, blocks.storage\n"
    "import deployments.cli.worker, deployments.workers.serve, deployments.cli.deploy, deployments.rollout.apply\n"
    "import blocks.azure, deployments.workers.inline\n" + AZURE,
    "gdal": "from flows import catalog; catalog.flow('segment')\n"
    "import flows.handlers.raster.mosaic, flows.handlers.raster.tiles, flows.child\n"
    "import flows.handlers.vector.convert, flows.handlers.vector.inspect\n"
    "import deployments.cli.worker, deployments.workers.serve, deployments.workers.forking",
    "serving": "import gateway.serving.app\n" + AZURE,
    "prefect-server": "import prefect.server, prefect_redis.messaging\n"
    "import prefect_redis.ordering, prefect_redis.lease_storage",
}
BLOCK = """
import sys, json
class Block:
    names = set(json.loads(sys.argv[1]))
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"{name} is not in this extra")
sys.meta_path.insert(0, Block())
exec(sys.argv[2])
"""


def closure(extra: str) -> set[str]:
    """Every distribution that installing the extra brings."""
    found: set[str] = set()
    waiting = [(OURS, frozenset({extra}))]
    while waiting:
        name, extras = waiting.pop()
        if name in found and not extras:
            continue
        found.add(name)
        try:
            needs = requires(name) or []
        except PackageNotFoundError:
            continue  # for another platform or Python
        for line in needs:
            need = Requirement(line)
            if need.marker is None or any(need.marker.evaluate({"extra": one}) for one in (extras or {""})):
                needed = canonicalize_name(need.name)
                if needed not in found or need.extras or needed == OURS:
                    waiting.append((needed, frozenset(need.extras)))
    return found


def outside(extra: str) -> list[str]:
    """Top-level modules that the extra does not bring."""
    allowed = closure(extra)
    return sorted(
        module
        for module, distributions in packages_distributions().items()
        if not any(canonicalize_name(name) in allowed for name in distributions)
    )


def run(extra: str, code: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", BLOCK, json.dumps(outside(extra)), code]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("extra", ROOMS)
def test_a_room_runs_with_its_own_extra(extra: str) -> None:
    done = run(extra, ROOMS[extra])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("extra", "module"),
    [("gateway", "prefect"), ("gateway", "sqlalchemy"), ("gateway", "rasterio"), ("domain", "rasterio"),
     ("gateway", "azure"), ("functions", "rasterio"),
     ("light", "rasterio"), ("light", "pyarrow"), ("light", "pyogrio"), ("light", "sqlmodel"),
     ("serving", "prefect"), ("gdal", "titiler")],
)  # fmt: skip
def test_an_extra_does_not_bring_what_its_room_must_not_know(extra: str, module: str) -> None:
    done = run(extra, f"import {module}")
    assert done.returncode != 0
    assert "ModuleNotFoundError" in done.stderr


@pytest.mark.parametrize("dockerfile", ["Dockerfile", "Dockerfile.worker"])
def test_every_image_installs_a_known_extra_under_the_constraints(dockerfile: str) -> None:
    installs = [line for line in (REPOSITORY / dockerfile).read_text().splitlines() if "pip install" in line]
    assert len(installs) >= 2
    for line in installs:
        assert "--constraint constraints.txt" in line
        assert line.rpartition("[")[2].partition("]")[0] in ROOMS
