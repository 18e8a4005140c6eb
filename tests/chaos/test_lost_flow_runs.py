"""A pool is killed in the middle of a run, worker, zygote and flow run together: the request completes all the same.

Silences are scaled down to a sixth of their defaults. CAIRN_CHAOS_RUNS sets how often; n is printed.
"""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from deployments import sample
from tests.support.clock import until
from tests.support.engine_chaos import Trial
from tests.support.stack import RunningStack

pytestmark = [pytest.mark.stack, pytest.mark.chaos]
RUNS = int(os.environ.get("CAIRN_CHAOS_RUNS", "1"))
WAIT_SECONDS = 90.0
# When to strike: as soon as the flow run of this segment (0 is the run's own) has said that it begins.
SEGMENT = {"gdal": 1, "light": 0}


@pytest.fixture(scope="module")
def stack(impatient_stack: Trial) -> RunningStack:
    return impatient_stack.stack


@pytest.mark.parametrize("pool", SEGMENT)
def test_a_run_survives_the_death_of_its_pool(stack: RunningStack, pool: str, tmp_path: Path) -> None:
    for number in range(RUNS):
        request_id = submit(stack, tmp_path, f"{pool}-{number}")
        wait_for_start(stack, request_id, SEGMENT[pool])
        kill_pool(stack, pool)
        assert wait_for_end(stack, request_id) == "completed"
        attempts = stack.rows(
            "select a.state from app.attempts a join app.runs using (run_id) where request_id = %s order by number",
            request_id,
        )
        states = [state for (state,) in attempts]
        assert states.count("committed") == 1
        assert states[-1] == "committed"
        assert 2 <= len(states) <= 3
    print(f"n = {RUNS}: {pool} killed mid-run, every request completed, one commit each")  # noqa: T201


def submit(stack: RunningStack, folder: Path, name: str) -> str:
    file = folder / f"{name}.tif"
    sample.write(file, seed=1)
    refs = ("--ref", f"dataset_id={name}", "--ref", "resource_id=dem", "--ref", "version_id=1")
    return str(stack.json("submit", str(file), *refs, "--no-wait")["request_id"])


def wait_for_start(stack: RunningStack, request_id: str, segment: int) -> None:
    query = (
        "select 1 from app.attempt_flow_runs join app.runs using (run_id)"
        " where request_id = %s and coalesce(segment, 0) = %s"
    )
    until(lambda: stack.rows(query, request_id, segment) != [], WAIT_SECONDS)


def wait_for_end(stack: RunningStack, request_id: str) -> str:
    def status() -> str:
        [(found,)] = stack.rows("select status from app.requests where request_id = %s", request_id)
        return str(found)

    until(lambda: status() not in {"pending", "processing"}, WAIT_SECONDS)
    return status()


def kill_pool(stack: RunningStack, pool: str) -> None:
    """SIGKILL to the pool's worker and to all that it has started: zygote, flow runs, tries."""
    for pid in with_descendants(stack.facts()["services"][f"worker-{pool}"]["pid"]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def with_descendants(pid: int) -> list[int]:
    """The process first: it must not see its children die."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, children.read_text().split())
    return found
