"""Extras keep images honest: each room runs with what its extra installs, and with nothing else.

Every distribution outside the extra's closure is made unimportable, as if it were not installed.
"""

import json
import subprocess
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from deployments.lock import closure

REPOSITORY = Path(__file__).resolve().parents[2]
# Zones in a storage account: the client is made, and nothing asked.
AZURE = "from flows.storage.account import Account; Account(url='https://a.blob.core.windows.net').client"
# What each image runs; see Dockerfile and Dockerfile.worker.
ROOMS = {
    "gateway": "import gateway.app",
    "functions": "import gateway.function_app",
    "domain": "import domain.app, domain.loops.relay, domain.migrations, flows.compiler, deployments.stack.prepare\n"
    + AZURE,
    "light": "from flows import catalog; catalog.flow('hello_world'); catalog.flow('segment')\n"
    "import flows.handlers.stac.staging, flows.handlers.vector.load, flows.handlers.vector.stac, blocks.storage\n"
    "import deployments.cli.worker, deployments.workers.serve, deployments.cli.deploy, deployments.rollout.apply\n"
    "import blocks.azure, deployments.workers.inline\n" + AZURE,
    "gdal": "from flows import catalog; catalog.flow('segment')\n"
    "import flows.handlers.raster.mosaic, flows.handlers.raster.tiles, flows.tries.process_parent\n"
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


installed = cache(packages_distributions)  # which reads what every distribution says of itself


@cache
def outside(extra: str) -> list[str]:
    """Top-level modules that the extra does not bring."""
    allowed = closure(extra)
    return sorted(
        module
        for module, distributions in installed().items()
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
