"""A second machine in one command: the page's way, with a network namespace as the second host."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deployments.stack.owner import tied
from deployments.stack.state import REPOSITORY
from tests.support.clock import until
from tests.support.second_host import SecondHost, second_host
from tests.support.stack import RunningStack, with_workflows

pytestmark = pytest.mark.stack
PAGE = REPOSITORY / "docs/how-to/run-on-two-hosts.md"
EXAMPLE = "192.168.1.10"
WAIT_SECONDS = 240.0
REACH = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"
OVER_TLS = 'import os, urllib.request, ssl, sys; tls = ssl.create_default_context(cafile=os.environ["CA"])'
HEALTH = f"{OVER_TLS}; print(urllib.request.urlopen(sys.argv[1], context=tls).status)"

SAYS = """
workflow_id: says_there
version: 1
inputs: {words: {type: string, required: true}}
nodes:
  start: {type: start, next: here}
  here: {handler: scripted, next: there}
  there: {handler: scripted, queue: gdal, params: {says: "{{ inputs.words }}"}, next: end}
  end: {type: end}
"""


@dataclass(frozen=True)
class Opened:
    """A stack that was opened as the page says, what it printed, and the other host."""

    stack: RunningStack
    printed: str
    host: SecondHost
    environment: Mapping[str, str]

    @property
    def commands(self) -> list[str]:
        """The commands for a worker host, as printed."""
        return re.findall(r"^  (\. .+)$", self.printed, re.MULTILINE)

    @contextmanager
    def worker(self, command: str, log: Path) -> Iterator[None]:
        """A worker on the other host, started by the command as it was printed."""
        with log.open("wb") as said:
            process = subprocess.Popen(
                tied(*self.host.command(command)),
                env=self.environment,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def reaches(self, service: str) -> bool:
        """Whether the other host gets a connection to the service's port."""
        port = self.stack.facts()["ports"][service]
        done = self.host.run(f"{sys.executable} -c '{REACH}' {self.host.first} {port}", self.environment)
        return done.returncode == 0


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The page's command for the first host, with this one's address in it. Its own gdal worker stands still."""
    [command] = re.findall(r"^cairn (up .*)$", PAGE.read_text(), re.MULTILINE)
    assert EXAMPLE in command
    stack = with_workflows(tmp_path_factory.mktemp("two-hosts"), {"says_there": SAYS})
    with second_host() as host:
        started = stack.cairn(*command.replace(EXAMPLE, host.first).split())
        assert started.returncode == 0, started.stderr
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        kept = {"PATH": path, "HOME": str(stack.folder), "LANG": "C.UTF-8", "PYTHONPATH": str(REPOSITORY)}
        environment = kept | {"CA": str(stack.folder / "worker-host" / "ca.pem")}
        own = stack.facts()["services"]["worker-gdal"]["pid"]
        os.kill(own, signal.SIGSTOP)
        try:
            yield Opened(stack, started.stdout, host, environment)
        finally:
            os.kill(own, signal.SIGCONT)
            stack.cairn("down")


def test_other_host_reaches_what_is_opened_by_tls_and_nothing_else(opened: Opened) -> None:
    assert [name for name in opened.stack.facts()["ports"] if opened.reaches(name)] == ["gateway", "domain", "prefect"]
    for service, path in (("gateway", "readyz"), ("domain", "readyz"), ("prefect", "api/ready")):
        place = f"{opened.host.first}:{opened.stack.facts()['ports'][service]}/{path}"
        secret = opened.host.run(f"{sys.executable} -c '{HEALTH}' https://{place}", opened.environment)
        plain = opened.host.run(f"{sys.executable} -c '{HEALTH}' http://{place}", opened.environment)
        assert secret.stdout.strip() == "200" or "401" in secret.stderr, secret.stderr
        assert plain.returncode != 0


@pytest.mark.parametrize("which", [0, 1], ids=["cairn", "prefect"])
def test_printed_command_runs_a_worker_on_the_other_host_that_completes_runs(
    opened: Opened, which: int, tmp_path: Path
) -> None:
    command = opened.commands[which]
    assert (" cairn " if which == 0 else " prefect ") in command
    raster, log = tmp_path / f"dem-{which}.tif", tmp_path / "worker.log"
    opened.stack.cairn("sample", str(raster))
    names = ("dataset_id=two-hosts", f"resource_id=dem-{which}", "version_id=1")
    with opened.worker(command, log):
        request = opened.stack.json("submit", str(raster), *(word for name in names for word in ("--ref", name)))
        until(lambda: status(opened, request) not in {"pending", "processing"}, WAIT_SECONDS, log.read_text)
        assert status(opened, request) == "completed", log.read_text()
        words = f"said beyond the cable by {which}"
        run = opened.stack.json("workflow", "run", "says_there", "-i", f"words={words}")
        assert run["state"] == "completed"
        [(flow_run,)] = opened.stack.rows(
            "select flow_run_id from app.attempt_flow_runs where run_id = %s and segment is not null", run["run_id"]
        )
        # While the worker lives: processes of runs send their lines a little later.
        until(lambda: ("cairn.handler", words) in lines(opened, flow_run), WAIT_SECONDS, log.read_text)
    with opened.stack.prefect() as prefect:
        assert prefect.get(f"/flow_runs/{flow_run}").json()["state_type"] == "COMPLETED"


def lines(opened: Opened, flow_run: object) -> set[tuple[str, str]]:
    """What Prefect shows of the logs of a child run."""
    asked = {"logs": {"flow_run_id": {"any_": [str(flow_run)]}}}
    with opened.stack.prefect() as prefect:
        found = prefect.post("/logs/filter", json=asked).raise_for_status().json()
    return {(line["name"], line["message"]) for line in found}


def status(opened: Opened, request: dict[str, Any]) -> str:
    with opened.stack.partner() as gateway:
        return str(gateway.get(f"/api/platform/status/{request['request_id']}").raise_for_status().json()["status"])
