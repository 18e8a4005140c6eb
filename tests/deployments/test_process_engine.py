"""A flow run in a process of its own, as the zygote's forks are, on a real Prefect server that is away now and then."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.stack.owner import tied
from tests.support.clock import until
from tests.support.gate import Gate, gate_to
from tests.support.prefect_server import PrefectServer

ENGINE = "import sys; from deployments.warm import zygote; sys.exit(zygote._run_engine())"
AS_A_FORK = "import os; from deployments.warm import zygote; os._exit(zygote._run_engine())"


@pytest.fixture
def gate(prefect_server: PrefectServer) -> Iterator[Gate]:
    with gate_to(prefect_server.port) as gate:
        yield gate


def test_a_run_that_begins_or_ends_while_prefect_is_away_waits(
    prefect_server: PrefectServer, gate: Gate, tmp_path: Path
) -> None:
    """A child run that ends its process instead costs its run an attempt. The client's own tries are spent at once."""
    server, begun, path = prefect_server, tmp_path / "begun", tmp_path / "end"
    server.pool("processes")
    flow_run = server.trigger(
        server.deploy("processes", "tests.support.inline_flows.waits"), path=str(path), begun=str(begun)
    )
    settings = {
        "PREFECT_API_URL": f"http://127.0.0.1:{gate.port}/api",
        "PREFECT_CLIENT_MAX_RETRIES": "0",
        "PREFECT__FLOW_RUN_ID": flow_run,
        "PREFECT__FLOW_ENTRYPOINT": "tests.support.inline_flows.waits",
    }
    gate.close()
    with (tmp_path / "log").open("wb") as log:
        engine = subprocess.Popen(
            tied(sys.executable, "-c", ENGINE), env=server.environment | settings, stdout=log, stderr=log
        )

    def waits(question: str) -> bool:
        said = (tmp_path / "log").read_text()
        assert engine.poll() is None, said[-3000:]
        return f"Prefect does not answer ({question}" in said

    try:
        until(lambda: waits(f"GET /api/flow_runs/{flow_run}"))
        gate.open()
        until(begun.exists)
        gate.close()
        path.touch()
        until(lambda: waits(f"POST /api/flow_runs/{flow_run}/set_state"))
        gate.open()
        assert engine.wait(60) == 0, (tmp_path / "log").read_text()[-3000:]
        assert server.states(flow_run)[-2:] == ["Running", "Completed"]
    finally:
        engine.kill()
        engine.wait()


def test_lines_of_a_short_run_are_sent_before_its_fork_ends(prefect_server: PrefectServer, tmp_path: Path) -> None:
    """A fork ends at once, as an interpreter does not; Prefect gathers lines for longer than the run lasts."""
    server = prefect_server
    server.pool("forks")
    flow_run = server.trigger(server.deploy("forks", "tests.support.inline_flows.quick"))
    settings = {
        "PREFECT__FLOW_RUN_ID": flow_run,
        "PREFECT__FLOW_ENTRYPOINT": "tests.support.inline_flows.quick",
        "PREFECT_LOGGING_TO_API_BATCH_INTERVAL": "600",
    }
    done = subprocess.run(
        tied(sys.executable, "-c", AS_A_FORK),
        env=server.environment | settings, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "line of 1, run count 1" in server.logs(flow_run)
