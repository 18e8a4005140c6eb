"""The zones as operators name them in Prefect: saved by a rollout, loaded by a worker, used on a real account."""

import json
import subprocess
import sys
from uuid import uuid4

import pytest

from blocks.storage import load_zones
from tests.support.azurite import Azurite
from tests.support.prefect_server import PrefectServer

READ = """
import asyncio, sys
from blocks.storage import load_zones
zones = asyncio.run(load_zones("azure-zones/cairn"))
zones.silver.write_bytes("out/x", zones.bronze.read_bytes("in/x"))
print(zones.silver.readable_path("out/x").partition("?")[0])
"""


def test_rollout_saves_the_storage_account_and_workers_use_it(prefect_server: PrefectServer, azurite: Azurite) -> None:
    prefix = f"k{uuid4().hex[:12]}-"
    zones, settings = azurite.zones(prefix), azurite.settings(prefix)
    zones.bronze.write_bytes("in/x", b"content")

    def changes() -> list[tuple[str, str]]:
        done = prefect_server.cairn("deploy", "--json", **settings)
        assert done.returncode == 0, done.stderr
        all_of_them = json.loads(done.stdout)["changes"]
        return [(one["verdict"], one["name"]) for one in all_of_them if one["kind"] == "block"]

    names = ("azure-blob-storage-credentials/cairn", "azure-zones/cairn")
    assert changes() == [("created", name) for name in names]
    assert changes() == [("unchanged", name) for name in names]
    settings["CAIRN_STORAGE_CA_FILE"] = "/elsewhere.pem"
    assert changes() == [("unchanged", names[0]), ("changed", names[1])]
    settings["CAIRN_STORAGE_CA_FILE"] = str(azurite.ca_file)
    changes()
    assert python(prefect_server, azurite.environment, READ) == f"{azurite.url}/{prefix}silver/out/x\n"
    assert zones.silver.read_bytes("out/x") == b"content"


def python(server: PrefectServer, identity: dict[str, str], code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**server.environment, **identity},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_storage_block_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="Known kinds: local-zones, azure-zones"):
        await load_zones("s3-bucket/cairn")
