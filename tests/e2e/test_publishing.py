"""An author beside a running stack, by the commands of docs/how-to/write-a-workflow.md and in their order."""

import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import until
from tests.support.prefect_server import REPOSITORY
from tests.support.stack import RunningStack

pytestmark = pytest.mark.stack
NAME = "count_words"


@pytest.fixture
def folder(stack: RunningStack) -> Path:
    return Path(stack.settings["CAIRN_WORKFLOWS_DIR"])


@pytest.fixture
def author(stack: RunningStack) -> RunningStack:
    """The same stack from another terminal, which was told no folder."""
    return replace(stack, settings={})


def ran(author: RunningStack) -> tuple[str, Any]:
    """The version that a run goes by now, and what it returns."""
    done = author.json("workflow", "run", NAME, "-i", "message=hi")
    return done["workflow"]["version"], done["outputs"]["echoed"]


def refused(author: RunningStack, *command: str) -> None:
    done: subprocess.CompletedProcess[str] = author.cairn(*command)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"Workflow {NAME} version 1 is published with other content" in done.stdout + done.stderr
    assert "count up `version`" in done.stdout + done.stderr


def test_an_author_publishes_to_a_running_stack(author: RunningStack, folder: Path) -> None:
    services = author.facts()["services"]
    assert author.cairn("workflow", "new", NAME, "--folder", str(folder)).returncode == 0
    assert author.cairn("workflow", "validate", str(folder)).returncode == 0
    deployed = author.json("deploy", "--limit", "gdal=7")
    assert deployed["published"] == [f"{NAME} version 1"]
    assert {change["name"] for change in deployed["changes"] if change["verdict"] != "unchanged"} == {
        f"{NAME}/{NAME}", "gdal"
    }  # fmt: skip
    with author.prefect() as prefect:
        pool = prefect.get("/work_pools/gdal").json()
    assert pool["concurrency_limit"] == 7
    assert str(REPOSITORY) not in str(pool["base_job_template"])  # workers of other machines read it too
    version, echoed = ran(author)
    assert (version, echoed["message"]) == ("1", "hi")

    file = folder / f"{NAME}.yaml"
    file.write_text(file.read_text().replace("says hi", "says hello"))
    refused(author, "workflow", "validate", str(folder))
    refused(author, "deploy")
    domain = services["domain"]["pid"]
    os.kill(domain, signal.SIGKILL)  # its next start finds the file so
    until(lambda: author.facts()["services"]["domain"]["pid"] not in {None, domain}, 60)
    until(lambda: author.cairn("status").returncode == 0, 120)
    assert ran(author)[0] == "1"

    file.write_text(file.read_text().replace("version: 1", "version: 2"))
    assert author.cairn("workflow", "validate", str(folder)).returncode == 0
    assert author.json("deploy")["published"] == [f"{NAME} version 2"]
    version, echoed = ran(author)
    assert (version, "says hello" in json.dumps(echoed)) == ("2", True)
    others = {name: service["pid"] for name, service in author.facts()["services"].items() if name != "domain"}
    assert others == {name: service["pid"] for name, service in services.items() if name != "domain"}
